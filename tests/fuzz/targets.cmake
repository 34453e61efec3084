# The fuzz targets, a line "name : rooms it tests". A target is tests/fuzz/<name>_fuzz.cc with the seeds in
# tests/fuzz/corpus/<name>/. Every test run replays them (tests.cmake); scripts/fuzz.sh runs them guided
# by coverage (CMakeLists.txt).
set(QUADRILLE_FUZZ_TARGETS
  "cluster : config"
  "hugging_face : config checkpoint"
  "job : config"
  "json_lines : data"
  "llmc : data"
  "manifest : checkpoint"
  "megatron : data"
  "safetensors : checkpoint"
  "sidecar : data"
  "tokenizer : data"
  "tokens : data"
)

# A target without a row would never run.
file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_LIST_DIR} ${CMAKE_CURRENT_LIST_DIR}/*_fuzz.cc)
foreach(source IN LISTS sources)
  string(REGEX REPLACE "_fuzz\\.cc$" "" name ${source})
  if(NOT "${QUADRILLE_FUZZ_TARGETS}" MATCHES "(^|;)${name} : ")
    message(FATAL_ERROR "tests/fuzz/${source} has no row in tests/fuzz/targets.cmake")
  endif()
endforeach()
unset(sources)

# Sets `name` and `rooms` (as targets) from a line of the table.
macro(quadrille_fuzz_target line)
  string(REGEX MATCH "^([a-z_]+) : (.*)$" _ "${line}")
  set(name ${CMAKE_MATCH_1})
  string(REPLACE " " ";" rooms "${CMAKE_MATCH_2}")
  list(TRANSFORM rooms PREPEND quadrille_)
endmacro()
