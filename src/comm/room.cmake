# fmt writes the messages; MPI carries the ranks of processes, where it was found (sources.cmake).
target_link_libraries(${target} PRIVATE fmt::fmt Threads::Threads)
if(MPI_C_FOUND)
  target_link_libraries(${target} PRIVATE MPI::MPI_C)
  # Without this mpi.h declares the removed C++ bindings, which nothing defines.
  target_compile_definitions(${target} PRIVATE OMPI_SKIP_MPICXX)
endif()
