# Highway is our own loops' vector code, chosen at run time; OpenMP the rank's pool; oneDNN or OpenBLAS
# (see sources.cmake) the matrix products.
target_link_libraries(${target} PRIVATE hwy::hwy OpenMP::OpenMP_CXX ${QUADRILLE_MATMUL_LIBRARY})
