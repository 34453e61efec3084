# Ranks on four hosts: network namespaces on this machine. They need root, a kernel that has them
# and, for one, Slurm; where something is missing they are skipped, and say what.
if(TARGET quadrille_launcher)
  foreach(case hostfile slurm)
    add_test(NAME slurm.${case}
      COMMAND ${folder}/hosts_test.sh ${case} $<TARGET_FILE:quadrille_launcher>
        ${PROJECT_BINARY_DIR}/slurm-${case})
    set_tests_properties(slurm.${case} PROPERTIES LABELS slurm SKIP_RETURN_CODE 77 TIMEOUT 300
      PROCESSORS 2 RESOURCE_LOCK quadrille_hosts)
  endforeach()
endif()
