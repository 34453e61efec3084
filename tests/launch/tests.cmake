# A rank process that fails as it is told, for the supervisor to watch.
add_executable(launch_rank_program ${folder}/rank_program.cc)
target_link_libraries(launch_rank_program PRIVATE quadrille_launch quadrille_flags)
target_compile_definitions(launch_test PRIVATE
  QUADRILLE_RANK_PROGRAM="$<TARGET_FILE:launch_rank_program>")
target_link_libraries(launch_test PRIVATE fmt::fmt)
add_dependencies(launch_test launch_rank_program)
