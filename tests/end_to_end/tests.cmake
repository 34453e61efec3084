# These drive the built program itself.
if(TARGET quadrille_launcher)
  target_compile_definitions(end_to_end_test PRIVATE
    QUADRILLE_PROGRAM="$<TARGET_FILE:quadrille_launcher>" QUADRILLE_SOURCE="${PROJECT_SOURCE_DIR}")
  add_dependencies(end_to_end_test quadrille_launcher)
  set(QUADRILLE_TESTS_OWN_DISCOVERY ON)
  gtest_discover_tests(end_to_end_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS end_to_end TIMEOUT 300 PROCESSORS 2)
endif()
