target_compile_definitions(${target} PRIVATE QUADRILLE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
# Writes docs/job-reference.md anew: `ninja -C build/release job-reference`.
add_executable(write_job_reference EXCLUDE_FROM_ALL ${folder}/write_job_reference.cc)
target_link_libraries(write_job_reference PRIVATE quadrille_config quadrille_flags)
add_custom_target(job-reference
  COMMAND write_job_reference ${PROJECT_SOURCE_DIR}/docs/job-reference.md VERBATIM)
