# What all targets need for the Python module (option CAUSEWAY_PYTHON), before any of them and any package is there: what
# goes into a shared library, and nothing of it visible to other modules of the process, who may have other versions of
# the same libraries. OpenSSL is linked statically. Protobuf is not: Debian's static library of it is for programs only
# (it was compiled without -fPIC, and its thread-local variables cannot be in a shared library).
if(CAUSEWAY_PYTHON)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
