# Replays of the fuzz targets with any compiler: the corpus and some thousand inputs damaged from it.
include(${folder}/targets.cmake)
foreach(line IN LISTS QUADRILLE_FUZZ_TARGETS)
  quadrille_fuzz_target("${line}")
  add_executable(${name}_fuzz_replay ${folder}/${name}_fuzz.cc ${folder}/replay_main.cc)
  target_include_directories(${name}_fuzz_replay PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name}_fuzz_replay PRIVATE ${rooms} quadrille_test_support quadrille_flags)
  add_test(NAME fuzz.${name} COMMAND ${name}_fuzz_replay ${folder}/corpus/${name} 5000
    ${PROJECT_BINARY_DIR}/fuzz_${name}.input)
  set_tests_properties(fuzz.${name} PROPERTIES LABELS unit TIMEOUT 120)
endforeach()
