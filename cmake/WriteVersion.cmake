# Run at every build as `cmake -D... -P WriteVersion.cmake`: writes version.cc, and only when
# something in it has changed, so that an unchanged revision recompiles nothing. The revision is
# git's; in an archive made by git it is the one written into revision.txt; else "unknown".
set(revision "unknown")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE_DIR}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE_DIR} describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(revision ${described})
  endif()
else()
  file(STRINGS ${SOURCE_DIR}/cmake/revision.txt archived LIMIT_COUNT 1)
  if(NOT archived MATCHES "Format")
    set(revision ${archived})
  endif()
endif()
configure_file(${SOURCE_DIR}/cmake/version.cc.in ${OUTPUT} @ONLY)
