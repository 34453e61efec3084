find_package(Threads REQUIRED)
target_link_libraries(${target} PUBLIC Threads::Threads PRIVATE fmt::fmt)
