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

# Kernels may not take more instructions than they did. Sanitizers and unoptimised code are not compared.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND AND NOT QUADRILLE_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Release")
  find_path(QUADRILLE_CALLGRIND_HEADER valgrind/callgrind.h)
  set(program ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/kernel_instructions)
  set(compare ${Python3_EXECUTABLE} ${folder}/check_instruction_counts.py ${program}
    ${folder}/instruction_counts.txt --compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  add_test(NAME kernels.InstructionCounts COMMAND ${compare})
  set_tests_properties(kernels.InstructionCounts PROPERTIES LABELS unit TIMEOUT 300 SKIP_RETURN_CODE 77)
  if(QUADRILLE_CALLGRIND_HEADER)
    add_executable(kernel_instructions ${folder}/instruction_counts.cc)
    target_include_directories(kernel_instructions PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(kernel_instructions SYSTEM PRIVATE ${QUADRILLE_CALLGRIND_HEADER})
    target_link_libraries(kernel_instructions PRIVATE quadrille_kernels hwy::hwy quadrille_flags)
    add_custom_target(rewrite_instruction_counts COMMAND ${compare} --rewrite DEPENDS kernel_instructions VERBATIM)
  endif()
endif()
