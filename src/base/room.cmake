target_link_libraries(${target} PUBLIC tl::expected PRIVATE fmt::fmt xxHash::xxhash nlohmann_json::nlohmann_json Threads::Threads)
