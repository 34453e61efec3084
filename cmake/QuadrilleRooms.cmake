# The one table of rooms. CMake builds a static library per room from it; the layering test reads
# the same lines and checks every #include against them. A line is "room level : may include".
# A room comes into being with its first source file in src/<room>; lines of rooms that do not exist
# yet already say what they will be allowed to see.
set(QUADRILLE_ROOMS
  "base 0 :"
  "mesh 1 : base"
  "schedule 1 : base"
  "observe 1 : base"
  "config 2 : base mesh"
  "device 2 : base observe"
  "plan 3 : base config mesh schedule"
  "data 3 : base config mesh observe"
  "memory 3 : base mesh observe device"
  "kernels 3 : base device"
  "report 4 : base config mesh schedule plan observe"
  "launch 4 : base config mesh plan observe"
  "comm 4 : base mesh observe device memory kernels"
  "jobs 5 : base config mesh plan observe launch"
  "model 5 : base config mesh observe device memory kernels comm"
  "optim 5 : base config mesh observe device memory kernels comm"
  "checkpoint 5 : base config mesh observe device memory comm"
  "probe 5 : base config mesh observe device memory kernels comm"
  "train 6 : base config mesh schedule plan observe device data memory kernels launch comm model optim checkpoint"
  "infer 6 : base config mesh plan observe device data memory kernels comm model checkpoint"
  "bench 7 : base config mesh schedule plan observe device data memory kernels report launch comm jobs model optim checkpoint probe train infer"
)

# Makes the library quadrille::<room> of every room that has sources, in table order (which is
# bottom up, so that a room's dependencies exist before it). `src/<room>/room.cmake`, where present,
# runs after the target is made: it links vendor libraries and picks vendor twins.
function(quadrille_add_rooms)
  set(targets "")
  foreach(line IN LISTS QUADRILLE_ROOMS)
    string(REGEX MATCH "^([a-z]+) ([0-9]+) :(.*)$" _ "${line}")
    set(room ${CMAKE_MATCH_1})
    string(STRIP "${CMAKE_MATCH_3}" allowed)
    string(REPLACE " " ";" allowed "${allowed}")
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*.cc)
    if(NOT sources)
      continue()
    endif()
    set(target quadrille_${room})
    # A file named no_<vendor>.cc or <vendor>_*.cc that is half of a twin is dropped by room.cmake.
    set(QUADRILLE_ROOM_SOURCES ${sources})
    if(EXISTS ${PROJECT_SOURCE_DIR}/src/${room}/sources.cmake)
      include(${PROJECT_SOURCE_DIR}/src/${room}/sources.cmake)
    endif()
    add_library(${target} STATIC ${QUADRILLE_ROOM_SOURCES})
    add_library(quadrille::${room} ALIAS ${target})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${room})
    target_include_directories(${target}
      PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
      PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_features(${target} PUBLIC cxx_std_20)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:quadrille_flags>)
    foreach(dependency IN LISTS allowed)
      if(TARGET quadrille_${dependency})
        target_link_libraries(${target} PUBLIC quadrille_${dependency})
      endif()
    endforeach()
    if(EXISTS ${PROJECT_SOURCE_DIR}/src/${room}/room.cmake)
      include(${PROJECT_SOURCE_DIR}/src/${room}/room.cmake)
    endif()
    list(APPEND targets ${target})
  endforeach()
  set(QUADRILLE_ROOM_TARGETS ${targets} PARENT_SCOPE)
endfunction()

# One test program per room from tests/<room>/*_test.cc; `tests/<room>/tests.cmake`, where present,
# adds launches that need more than running the program (MPI ranks, labels).
function(quadrille_add_tests)
  file(GLOB folders CONFIGURE_DEPENDS LIST_DIRECTORIES true ${PROJECT_SOURCE_DIR}/tests/*)
  foreach(folder IN LISTS folders)
    get_filename_component(name ${folder} NAME)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*_test.cc)
    if(sources)
      set(target ${name}_test)
      add_executable(${target} ${sources})
      target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/src)
      target_link_libraries(${target} PRIVATE quadrille_test_support GTest::gmock GTest::gtest_main quadrille_flags)
      if(TARGET quadrille_keep_modules)
        target_sources(${target} PRIVATE $<TARGET_OBJECTS:quadrille_keep_modules>)
      endif()
      if(TARGET quadrille_${name})
        target_link_libraries(${target} PRIVATE quadrille_${name})
      else()
        target_link_libraries(${target} PRIVATE quadrille)
      endif()
    endif()
    if(EXISTS ${folder}/tests.cmake)
      include(${folder}/tests.cmake)
    endif()
    if(sources AND NOT QUADRILLE_TESTS_OWN_DISCOVERY)
      gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
        PROPERTIES LABELS unit TIMEOUT 300)
    endif()
    unset(QUADRILLE_TESTS_OWN_DISCOVERY)
  endforeach()
endfunction()
