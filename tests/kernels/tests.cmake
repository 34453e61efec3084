# The tests pick instruction sets and thread counts themselves.
target_link_libraries(${target} PRIVATE hwy::hwy OpenMP::OpenMP_CXX)
