# `cmake --install` leaves the tool, the headers, the libraries and a package that
# find_package(tilemesh) finds.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tilemesh)
install(EXPORT tilemeshTargets NAMESPACE tilemesh:: DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tilemeshConfig.cmake.in
  ${PROJECT_BINARY_DIR}/tilemeshConfig.cmake INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tilemeshConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tilemeshConfig.cmake
  ${PROJECT_BINARY_DIR}/tilemeshConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/TilemeshDependencies.cmake DESTINATION ${package_dir})
