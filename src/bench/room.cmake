# oneDNN and OpenBLAS are what the products are held against, Highway the code of the limits' loops.
target_link_libraries(${target} PRIVATE fmt::fmt hwy::hwy OpenMP::OpenMP_CXX Threads::Threads DNNL::dnnl
  OpenBLASOpenMP::openblas)
if(MPI_C_FOUND)
  target_link_libraries(${target} PRIVATE MPI::MPI_C)
  target_compile_definitions(${target} PRIVATE OMPI_SKIP_MPICXX)
endif()
