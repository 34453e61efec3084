# The tests pick instruction sets and thread counts themselves.
target_link_libraries(${target} PRIVATE hwy::hwy OpenMP::OpenMP_CXX)

# The other twin behind matmul against the same tests: its object is linked ahead of the library's.
if(QUADRILLE_MATMUL STREQUAL "onednn")
  add_executable(kernels_openblas_test ${folder}/matmul_test.cc ${folder}/head_loss_test.cc ${folder}/rounding_test.cc
    ${PROJECT_SOURCE_DIR}/src/kernels/openblas_matmul.cc)
  target_include_directories(kernels_openblas_test PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(kernels_openblas_test PRIVATE OpenBLASOpenMP::openblas quadrille_kernels GTest::gtest_main
    hwy::hwy OpenMP::OpenMP_CXX quadrille_flags)
  gtest_discover_tests(kernels_openblas_test TEST_PREFIX openblas. DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS unit TIMEOUT 300)
endif()
