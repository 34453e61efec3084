# `cmake --install`: libraries, headers and the files by which find_package(quadrille) finds them and
# what they need. The Find modules go along, since a consumer needs the same ones.
include(CMakePackageConfigHelpers)
set(QUADRILLE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/quadrille)

install(TARGETS quadrille ${QUADRILLE_ROOM_TARGETS} EXPORT quadrille-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/quadrille DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(EXPORT quadrille-targets NAMESPACE quadrille:: DESTINATION ${QUADRILLE_PACKAGE_DIR})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/quadrille-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/quadrille-config.cmake
  INSTALL_DESTINATION ${QUADRILLE_PACKAGE_DIR}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/quadrille-config-version.cmake
  COMPATIBILITY SameMinorVersion)  # Nothing is promised across minor versions before 1.0.
install(FILES
  ${PROJECT_BINARY_DIR}/package/quadrille-config.cmake
  ${PROJECT_BINARY_DIR}/package/quadrille-config-version.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindOpenBLASOpenMP.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindPCRE2.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindSentencePiece.cmake
  ${PROJECT_SOURCE_DIR}/cmake/Finddnnl.cmake
  ${PROJECT_SOURCE_DIR}/cmake/Findhwloc.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindxxHash.cmake
  DESTINATION ${QUADRILLE_PACKAGE_DIR})
