# The predicted bytes are held against a real run's.
target_link_libraries(plan_test PRIVATE quadrille)
