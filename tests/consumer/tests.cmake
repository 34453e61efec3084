# The examples as consumers of the installed package. Needs every target to be built.
if(QUADRILLE_INSTALL AND NOT QUADRILLE_SANITIZE)
  add_test(NAME consumer.examples
    COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}
      -DWORK=${PROJECT_BINARY_DIR}/consumer -DVERSION=${PROJECT_VERSION} -DCOMPILER=${CMAKE_CXX_COMPILER}
      -P ${PROJECT_SOURCE_DIR}/tests/consumer/consumer.cmake)
  set_tests_properties(consumer.examples PROPERTIES LABELS consumer TIMEOUT 300 PROCESSORS 2)
endif()
