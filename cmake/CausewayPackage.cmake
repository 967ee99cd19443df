# `cpack` in a build directory makes a Debian package of the program, its manual page, completion and documentation.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY TRUE)  # cpack packs what was built
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME causeway)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train one model across regions that are far apart")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Inside a region, workers sum gradients in every step. Between regions,\n\
one coordinator for each exchanges compressed changes every K steps, over\n\
TLS, so that links with little bandwidth and long round trips are enough.\n\
Regions may come, go and fail while the run goes on.")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Causeway authors <causeway@localhost>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME causeway)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
include(CPack)
