# Installs the build into a fresh prefix, builds the examples against it as a stranger would, runs
# them, and holds what they print against what they were given. Run as
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DVERSION=... -DCOMPILER=... -P consumer.cmake
function(run name)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE code)
  message("== ${name}\n${output}")
  set(output "${output}" PARENT_SCOPE)
  set(code "${code}" PARENT_SCOPE)
endfunction()
function(must name)
  run(${name} ${ARGN})
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${name} ended with ${code}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
must("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)

# Nothing of the source or build tree may stay behind in what a consumer reads.
file(GLOB_RECURSE package ${WORK}/prefix/*.cmake)
foreach(file IN LISTS package)
  file(READ ${file} text)
  string(FIND "${text}" "${SOURCE}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} names ${SOURCE}")
  endif()
endforeach()

# The examples are moved away from the tree, so that they cannot find a header in it.
file(COPY ${SOURCE}/examples DESTINATION ${WORK})
must("configure" ${CMAKE_COMMAND} -S ${WORK}/examples -B ${WORK}/build -G Ninja
  -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_CXX_COMPILER=${COMPILER})
must("build" ${CMAKE_COMMAND} --build ${WORK}/build)

set(verse "the quick brown fox jumps over the lazy dog\n")
string(REPEAT "${verse}" 400 text)
file(WRITE ${WORK}/text.txt "${text}")
file(WRITE ${WORK}/job.json [[{
  "name": "consumer",
  "model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "context": 32},
  "data": {"train": "text.txt"},
  "training": {"sequence": 32, "global_batch": 8, "steps": 10},
  "parallel": {"data": 2}
}]])
must("plan_a_job" ${WORK}/build/plan_a_job ${WORK}/job.json)
if(NOT output MATCHES "Quadrille ${VERSION}")
  message(FATAL_ERROR "plan_a_job does not name version ${VERSION}")
endif()

file(WRITE ${WORK}/wrong.json [[{"model": {"family": "gpt2", "layres": 2}, "data": {"train": "text.txt"}}]])
run("plan_a_job with a misspelt key" ${WORK}/build/plan_a_job ${WORK}/wrong.json)
if(NOT code EQUAL 2 OR NOT output MATCHES "layres" OR NOT output MATCHES "layers")
  message(FATAL_ERROR "a misspelt key is not refused with the right one")
endif()

# A model of the program's own, on two ranks that mpirun starts and on two threads: it learns, and is
# killed and resumed to the same bits.
file(WRITE ${WORK}/custom.json [[{
  "name": "bytes",
  "model": {"family": "custom", "context": 32},
  "data": {"train": "text.txt", "validation_fraction": 0.1},
  "training": {"sequence": 32, "global_batch": 8, "steps": 600, "learning_rate": 0.003,
               "evaluate_every": 200, "evaluate_batches": 1},
  "parallel": {"data": 2},
  "checkpoint": {"every": 50}
}]])
set(quadrille ${WORK}/prefix/bin/quadrille)
must("train a custom model" ${quadrille} launch ${WORK}/custom.json --run-dir ${WORK}/bytes
  -- ${WORK}/build/custom_trainer 32)
file(STRINGS ${WORK}/bytes/metrics.jsonl rows)
list(LENGTH rows steps)
list(GET rows 0 first)
list(GET rows -1 last)
string(JSON first_loss GET "${first}" loss)
string(JSON last_loss GET "${last}" loss)
string(JSON validation_loss GET "${last}" validation_loss)
# From about ln 256 = 5.55; the text has 28 different bytes, ln 28 = 3.33, and its next is known.
if(NOT steps EQUAL 600 OR NOT last_loss LESS 3.3 OR NOT first_loss GREATER 5 OR NOT validation_loss LESS 3.3)
  message(FATAL_ERROR "the custom model has learned nothing: ${first_loss} to ${last_loss}")
endif()
must("checkpoint ls" ${quadrille} checkpoint ls ${WORK}/bytes)
if(NOT output MATCHES "step-00000550" OR NOT output MATCHES "step-00000600")
  message(FATAL_ERROR "the custom run's checkpoints are not listed")
endif()
must("checkpoint verify" ${quadrille} checkpoint verify ${WORK}/bytes)
run("generate from a custom model" ${quadrille} generate ${WORK}/bytes --prompt the)
if(NOT code EQUAL 2 OR NOT output MATCHES "custom")
  message(FATAL_ERROR "a custom model's run is not refused by name")
endif()
run("launch a custom model without its program" ${quadrille} launch ${WORK}/custom.json)
if(NOT code EQUAL 2 OR NOT output MATCHES "-- PROGRAM")
  message(FATAL_ERROR "a custom model without a program is not refused with a hint")
endif()

# Each rank is killed with signal 9 once 100 steps are done: the state of step 50 at least is there.
run("kill a rank" ${CMAKE_COMMAND} -E env KILL_AFTER=100 ${quadrille} launch ${WORK}/custom.json
  --run-dir ${WORK}/killed -- ${SOURCE}/tests/consumer/killed_at.sh ${WORK}/build/custom_trainer 32)
if(NOT code EQUAL 3)
  message(FATAL_ERROR "a killed rank ends the launch with ${code}, not 3")
endif()
must("resume" ${quadrille} launch ${WORK}/custom.json --run-dir ${WORK}/killed --resume required
  -- ${WORK}/build/custom_trainer 32)
must("the same bits" ${quadrille} checkpoint diff ${WORK}/bytes ${WORK}/killed)
must("on threads" ${quadrille} launch ${WORK}/custom.json --run-dir ${WORK}/threads --backend threads
  -- ${WORK}/build/custom_trainer 32)
must("the same bits on threads" ${quadrille} checkpoint diff ${WORK}/bytes ${WORK}/threads)

must("custom_loop" ${WORK}/build/custom_loop ${WORK}/text.txt ${WORK}/run)
if(NOT output MATCHES "loss after 20 steps: ([0-9.]+)")
  message(FATAL_ERROR "custom_loop reports no loss")
endif()
if(NOT CMAKE_MATCH_1 LESS 4.5)  # From ln 256 = 5.55; the text has 28 different bytes, ln 28 = 3.33.
  message(FATAL_ERROR "custom_loop has learned nothing: ${CMAKE_MATCH_1}")
endif()
file(STRINGS ${WORK}/run/metrics.jsonl rows)
list(LENGTH rows steps)
if(NOT steps EQUAL 20)
  message(FATAL_ERROR "metrics.jsonl has ${steps} rows for 20 steps")
endif()
