# The style of the project is a test: `ctest -L style`, a few seconds.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
foreach(name layering prose format)
  add_test(NAME style.${name}
    COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/style/${name}_test.py)
  set_tests_properties(style.${name} PROPERTIES LABELS style TIMEOUT 60 SKIP_RETURN_CODE 77)
endforeach()

# Every header compiles alone: one translation unit each, which includes it twice.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/src/*.h ${PROJECT_SOURCE_DIR}/launcher/*.h)
set(units "")
foreach(header IN LISTS headers)
  if(header MATCHES "-inl\\.h$")
    continue()  # Compiled once per instruction set by its one includer.
  endif()
  string(REGEX REPLACE "^(include|src)/" "" included ${header})
  string(MAKE_C_IDENTIFIER ${header} name)
  set(unit ${PROJECT_BINARY_DIR}/generated/alone/${name}.cc)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${included}\"\n#include \"${included}\"\n")
  list(APPEND units ${unit})
endforeach()
add_library(headers_alone OBJECT ${units})
target_compile_options(headers_alone PRIVATE -O0 -g0)
target_include_directories(headers_alone PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
target_link_libraries(headers_alone PRIVATE quadrille quadrille_flags OpenMP::OpenMP_CXX)
if(TARGET MPI::MPI_C)
  target_link_libraries(headers_alone PRIVATE MPI::MPI_C)
endif()

# The target `format` brings every file into its form.
find_program(CLANG_FORMAT NAMES clang-format-14 clang-format)
if(CLANG_FORMAT)
  file(GLOB_RECURSE formatted CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/*.h
    ${PROJECT_SOURCE_DIR}/src/*.h ${PROJECT_SOURCE_DIR}/src/*.cc
    ${PROJECT_SOURCE_DIR}/launcher/*.h ${PROJECT_SOURCE_DIR}/launcher/*.cc
    ${PROJECT_SOURCE_DIR}/tests/*.h ${PROJECT_SOURCE_DIR}/tests/*.cc
    ${PROJECT_SOURCE_DIR}/examples/*.cc ${PROJECT_SOURCE_DIR}/benchmarks/*.cc)
  add_custom_target(format COMMAND ${CLANG_FORMAT} -i ${formatted})
endif()
