target_compile_definitions(${target} PRIVATE
  QUADRILLE_GOLDEN_LOSSES="${PROJECT_SOURCE_DIR}/tests/golden/losses.json")
