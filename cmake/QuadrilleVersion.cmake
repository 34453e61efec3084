# Gives the base room its version.cc, which is written at build time: a configure step would keep the
# revision of the day it ran.
function(quadrille_add_version target)
  set(output ${PROJECT_BINARY_DIR}/generated/version.cc)
  set(mpi "")
  if(MPI_C_FOUND)
    set(mpi "MPI ${MPI_C_VERSION}")
  endif()
  set(write ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${output}
    -DVERSION=${PROJECT_VERSION} -DBUILD_TYPE=${CMAKE_BUILD_TYPE}
    "-DCOMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    "-DSANITIZERS=${QUADRILLE_SANITIZE}" "-DMPI=${mpi}"
    -P ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake)
  add_custom_target(quadrille_version BYPRODUCTS ${output} COMMAND ${write}
    COMMENT "Asking git for the revision" VERBATIM)
  target_sources(${target} PRIVATE ${output})
  add_dependencies(${target} quadrille_version)
endfunction()
