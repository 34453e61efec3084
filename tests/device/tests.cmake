target_link_libraries(device_test PRIVATE OpenMP::OpenMP_CXX)
