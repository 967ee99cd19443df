# What `cmake --install` leaves: the program, and the worker API for C++ and C as one static library with a header each and a
# CMake package. The library holds the objects of all our libraries that the API stands on; a program links what it needs.
# The simulated WAN is a second library, with all headers that its own include.
# For C, there is also a shared library, found by pkg-config. What is for those who build programs is the component `development`.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(
  causeway_package STATIC
  $<TARGET_OBJECTS:causeway_compression> $<TARGET_OBJECTS:causeway_inter>
  $<TARGET_OBJECTS:causeway_diloco_protocol> $<TARGET_OBJECTS:causeway_diloco_rounds>
  $<TARGET_OBJECTS:causeway_diloco_rounds_cold> $<TARGET_OBJECTS:causeway_diloco> $<TARGET_OBJECTS:causeway_worker>
  $<TARGET_OBJECTS:causeway_worker_cold> $<TARGET_OBJECTS:causeway_c_api>)
set_target_properties(causeway_package PROPERTIES OUTPUT_NAME causeway LINKER_LANGUAGE CXX)

add_library(causeway_wan_sim_package STATIC $<TARGET_OBJECTS:causeway_wan_sim>
                                           $<TARGET_OBJECTS:causeway_wan_sim_cold>)
set_target_properties(causeway_wan_sim_package PROPERTIES OUTPUT_NAME causeway-wan-sim LINKER_LANGUAGE CXX)

# Packages bring libraries that differ from distribution to distribution along (CausewayPackage.cmake), beside the program. DT_RPATH holds
# for what these libraries load, too.
set_target_properties(causeway PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/causeway")
set_target_properties(causeway_shared PROPERTIES INSTALL_RPATH "$ORIGIN/causeway")
target_link_options(causeway PRIVATE -Wl,--disable-new-dtags)
target_link_options(causeway_shared PRIVATE -Wl,--disable-new-dtags)
install(TARGETS causeway causeway_shared RUNTIME_DEPENDENCY_SET causeway_loaded
        RUNTIME COMPONENT program
        LIBRARY COMPONENT program NAMELINK_COMPONENT development)
install(TARGETS causeway_package causeway_wan_sim_package ARCHIVE COMPONENT development)
install(FILES intra/worker/worker.h intra/c_api/causeway.h wan-sim/client/wan.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/causeway COMPONENT development)
install(DIRECTORY wan-sim inter DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/causeway COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN wan-sim/client EXCLUDE)

# Who includes our headers must see Asio as our objects saw it, and who links them needs the OpenMP that they were compiled for. GCC's
# library is named by itself: another compiler finds another OpenMP, or none.
get_target_property(CAUSEWAY_ASIO_DEFINITIONS causeway_asio INTERFACE_COMPILE_DEFINITIONS)
list(REMOVE_ITEM CAUSEWAY_ASIO_DEFINITIONS ASIO_SEPARATE_COMPILATION)  # theirs stays in headers: they may use more of it than we compile
set(CAUSEWAY_OPENMP -l:libgomp.so.1)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  set(CAUSEWAY_OPENMP ${OpenMP_CXX_LIBRARIES})
endif()
set(CAUSEWAY_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/causeway)
configure_package_config_file(
  cmake/causeway-config.cmake.in ${PROJECT_BINARY_DIR}/causeway-config.cmake
  INSTALL_DESTINATION ${CAUSEWAY_PACKAGE_DIR} PATH_VARS CMAKE_INSTALL_BINDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
# Below 1.0, a program for 0.1 builds with every 0.1.x, and with no 0.2.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/causeway-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/causeway-config.cmake ${PROJECT_BINARY_DIR}/causeway-config-version.cmake
        DESTINATION ${CAUSEWAY_PACKAGE_DIR} COMPONENT development)

# Found from where it lies, wherever that is installed to.
file(RELATIVE_PATH CAUSEWAY_PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/causeway.pc.in ${PROJECT_BINARY_DIR}/causeway.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/causeway.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# What the program says of itself: its manual page, completion for shells where each looks for it, and what it is made of.
set(CAUSEWAY_DESCRIBED ${PROJECT_BINARY_DIR}/described)
set(described_files)
function(causeway_describe file directory)  # the rest is the command; its output may be packed
  string(JOIN " " command ${ARGN})
  add_custom_command(
    OUTPUT ${CAUSEWAY_DESCRIBED}/${file}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CAUSEWAY_DESCRIBED}
    COMMAND sh -c "\"$0\" ${command} > \"$1\"" $<TARGET_FILE:causeway> ${CAUSEWAY_DESCRIBED}/${file}
    DEPENDS causeway
    VERBATIM)
  set(described_files ${described_files} ${CAUSEWAY_DESCRIBED}/${file} PARENT_SCOPE)
  install(FILES ${CAUSEWAY_DESCRIBED}/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${directory} COMPONENT program)
endfunction()
causeway_describe(causeway bash-completion/completions completion bash)
causeway_describe(_causeway zsh/vendor-completions completion zsh)
causeway_describe(causeway.fish fish/vendor_completions.d completion fish)
causeway_describe(causeway.1.gz man/man1 man-page | gzip -9n)
add_custom_command(
  OUTPUT ${CAUSEWAY_DESCRIBED}/causeway.spdx.json
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CAUSEWAY_DESCRIBED}
  COMMAND sh -c "sh \"$0\" \"$1\" ${PROJECT_VERSION} > \"$2\"" ${PROJECT_SOURCE_DIR}/cmake/sbom.sh $<TARGET_FILE:causeway>
          ${CAUSEWAY_DESCRIBED}/causeway.spdx.json
  DEPENDS causeway ${PROJECT_SOURCE_DIR}/cmake/sbom.sh
  VERBATIM)
install(FILES ${CAUSEWAY_DESCRIBED}/causeway.spdx.json DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
add_custom_target(describe ALL DEPENDS ${described_files} ${CAUSEWAY_DESCRIBED}/causeway.spdx.json)

file(GLOB documentation ${PROJECT_SOURCE_DIR}/docs/*.md ${PROJECT_SOURCE_DIR}/docs/*.png)
install(FILES ${documentation} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT program)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES cmake/debian/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT license)  # Debian has it already
install(DIRECTORY configs deploy DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)

set(changelog ${CAUSEWAY_DESCRIBED}/changelog.gz)
add_custom_command(OUTPUT ${changelog} DEPENDS ${PROJECT_SOURCE_DIR}/cmake/debian/changelog VERBATIM
                   COMMAND sh -c "gzip -9nc \"$0\" > \"$1\"" ${PROJECT_SOURCE_DIR}/cmake/debian/changelog ${changelog})
add_custom_target(changelog ALL DEPENDS ${changelog})
add_dependencies(changelog describe)  # after what makes the directory
install(FILES ${changelog} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
foreach(file cmake/debian/copyright ${changelog})
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/causeway-dev COMPONENT development EXCLUDE_FROM_ALL)
endforeach()
install(FILES cmake/debian/lintian-overrides-dev DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME causeway-dev COMPONENT development EXCLUDE_FROM_ALL)
install(FILES cmake/debian/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME causeway COMPONENT program)

install(FILES deploy/systemd/causeway-coordinator.service deploy/systemd/causeway-worker@.service DESTINATION lib/systemd/system COMPONENT program)
install(FILES cmake/debian/causeway.sysusers DESTINATION lib/sysusers.d RENAME causeway.conf COMPONENT program)

include(CausewayPackage)
