# `cpack` in a build directory makes Debian packages (causeway, causeway-dev) and an archive (.tar.zst). The program in them runs wherever
# glibc is 2.34 or newer: libraries whose versions differ from distribution to distribution lie beside it, in lib/causeway. What every
# distribution has under one name, and mends itself, stays out of the package. The archive, which can depend on nothing, has all but glibc,
# which must be no older than that where it was made (CausewayCpack.cmake): it has libraries of that system.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY TRUE)  # cpack packs what was built
set(own_libraries "prometheus-cpp|spdlog|fmt|protobuf|tomlplusplus|gloo|hiredis|dnnl|hwy")
install(RUNTIME_DEPENDENCY_SET causeway_loaded
        PRE_INCLUDE_REGEXES "/?lib(${own_libraries})[-.]" PRE_EXCLUDE_REGEXES ".*"
        LIBRARY DESTINATION lib/causeway COMPONENT bundle EXCLUDE_FROM_ALL)
install(RUNTIME_DEPENDENCY_SET causeway_loaded
        PRE_EXCLUDE_REGEXES "^ld-linux" "/?lib(c|m|dl|rt|pthread|resolv|causeway)\\.so"
        LIBRARY DESTINATION lib/causeway COMPONENT bundle_of_archive EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB TZST)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/CausewayCpack.cmake)
set(CPACK_PACKAGE_NAME causeway)
set(CAUSEWAY_HOMEPAGE "" CACHE STRING "Where the project is on the web, for its packages")
if(CAUSEWAY_HOMEPAGE)
  set(CPACK_PACKAGE_HOMEPAGE_URL ${CAUSEWAY_HOMEPAGE})
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train one model across regions that are far apart")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Inside a region, workers sum gradients in every step. Between regions,\n\
one coordinator for each exchanges compressed changes every K steps, over\n\
TLS, so that links with little bandwidth and long round trips are enough.\n\
Regions may come, go and fail while the run goes on.")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Causeway authors <causeway@localhost>")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME causeway)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS
    "libc6 (>= 2.34), libstdc++6 (>= 12), libgcc-s1 (>= 12), libgomp1 (>= 6), libssl3 (>= 3.0.0) | libssl3t64, \
libarchive13 (>= 3.4) | libarchive13t64, libpcre2-8-0 (>= 10.32), libibverbs1, ocl-icd-libopencl1 | libopencl1, libzstd1 (>= 1.4), zlib1g")
if(CAUSEWAY_HAS_CUDA)  # it opens these when a region has device = "cuda"; they are NVIDIA's, from its own repository
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS
      "libcublas-${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}, libcudnn9-cuda-${CUDAToolkit_VERSION_MAJOR}, libnccl2")
endif()
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/postinst ${PROJECT_SOURCE_DIR}/cmake/debian/shlibs
    ${PROJECT_SOURCE_DIR}/cmake/debian/triggers)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME causeway-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
# The static libraries were compiled for these headers: those of Debian 12.
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "causeway (= ${PROJECT_VERSION}), libprotobuf-dev (>= 3.21), libprotobuf-dev (<< 3.22), libssl-dev, libspdlog-dev (>= 1:1.10), \
libtomlplusplus-dev, libhwy-dev, nlohmann-json3-dev, libasio-dev")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
include(CPack)
cpack_add_component(program GROUP program)
cpack_add_component(bundle GROUP program)
cpack_add_component(bundle_of_archive GROUP archive)
cpack_add_component(development GROUP development)
