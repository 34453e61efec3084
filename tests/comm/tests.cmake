target_sources(comm_test PRIVATE ${folder}/collective_cases.cc)
target_link_libraries(comm_test PRIVATE fmt::fmt)

# The same cases as MPI processes. A fault ends with mpiexec reporting a failed job, so those tests
# look for what the surviving ranks print.
if(MPI_C_FOUND)
  add_executable(comm_mpi_battery ${folder}/mpi_battery.cc ${folder}/mpi_reference.cc
    ${folder}/collective_cases.cc)
  target_include_directories(comm_mpi_battery PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(comm_mpi_battery PRIVATE quadrille_comm MPI::MPI_C fmt::fmt quadrille_flags)
  target_compile_definitions(comm_mpi_battery PRIVATE OMPI_SKIP_MPICXX)

  # mpiexec kills the others so long after the first death; 0 saves the time where nobody need see it.
  set(seconds_to_live 0)
  function(quadrille_add_mpi_case case ranks)
    add_test(NAME comm_mpi.${case}.${ranks}_ranks
      COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none
              --mca odls_base_sigkill_timeout ${seconds_to_live} ${MPIEXEC_NUMPROC_FLAG} ${ranks}
              $<TARGET_FILE:comm_mpi_battery> ${case})
    set_tests_properties(comm_mpi.${case}.${ranks}_ranks PROPERTIES
      LABELS mpi TIMEOUT 60 PROCESSORS 2 ENVIRONMENT
      "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_mpi_yield_when_idle=1;OMP_NUM_THREADS=1;OPENBLAS_NUM_THREADS=1")
  endfunction()
  foreach(ranks RANGE 1 6)
    quadrille_add_mpi_case(collectives ${ranks})
  endforeach()
  foreach(ranks 2 4)
    quadrille_add_mpi_case(messages ${ranks})
  endforeach()
  quadrille_add_mpi_case(small_messages 3)
  foreach(fault early operation count failure late kill kill_inside kill_sender stop)
    if(fault MATCHES "^kill")
      set(seconds_to_live 3)
    else()
      set(seconds_to_live 0)
    endif()
    quadrille_add_mpi_case(${fault} 3)
    set_tests_properties(comm_mpi.${fault}.3_ranks PROPERTIES
      PASS_REGULAR_EXPRESSION "rank 0, [0-4]\\.[0-9] s: as expected"
      FAIL_REGULAR_EXPRESSION "NOT AS EXPECTED")
  endforeach()
  add_test(NAME comm_mpi.started_by_hand COMMAND comm_mpi_battery alone)
  set_tests_properties(comm_mpi.started_by_hand PROPERTIES
    LABELS mpi TIMEOUT 60 PASS_REGULAR_EXPRESSION "not started as an MPI rank; start it by mpirun"
    ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
endif()
