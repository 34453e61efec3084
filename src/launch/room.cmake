target_link_libraries(${target} PRIVATE fmt::fmt Threads::Threads)
