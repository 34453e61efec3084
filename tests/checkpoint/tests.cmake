target_compile_definitions(${target} PRIVATE QUADRILLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
