# What `cmake --install` leaves: the program, and the worker API as one static library with one header and a CMake
# package. The library holds the objects of all our libraries that the API stands on; a program links what it needs.
# For C, a shared library with one header, found by pkg-config.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(
  causeway_package STATIC
  $<TARGET_OBJECTS:causeway_compression> $<TARGET_OBJECTS:causeway_inter>
  $<TARGET_OBJECTS:causeway_diloco_protocol> $<TARGET_OBJECTS:causeway_diloco>
  $<TARGET_OBJECTS:causeway_worker>)
set_target_properties(causeway_package PROPERTIES OUTPUT_NAME causeway LINKER_LANGUAGE CXX)

install(TARGETS causeway RUNTIME)
install(TARGETS causeway_package ARCHIVE)
install(TARGETS causeway_shared LIBRARY)
install(FILES intra/worker/worker.h intra/c_api/causeway.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/causeway)

set(CAUSEWAY_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/causeway)
configure_package_config_file(
  cmake/causeway-config.cmake.in ${PROJECT_BINARY_DIR}/causeway-config.cmake
  INSTALL_DESTINATION ${CAUSEWAY_PACKAGE_DIR} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
# Versions below 1 promise nothing to each other.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/causeway-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES ${PROJECT_BINARY_DIR}/causeway-config.cmake ${PROJECT_BINARY_DIR}/causeway-config-version.cmake
        DESTINATION ${CAUSEWAY_PACKAGE_DIR})

# Found from where it lies, wherever that is installed to.
file(RELATIVE_PATH CAUSEWAY_PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/causeway.pc.in ${PROJECT_BINARY_DIR}/causeway.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/causeway.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
