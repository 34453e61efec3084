# The predicted bytes are held against a real run's.
target_link_libraries(plan_test PRIVATE quadrille)
target_compile_definitions(${target} PRIVATE QUADRILLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
