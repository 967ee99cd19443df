# Every header compiles alone. With each file compiled by itself (preset dev) a header whose own X.cc includes it first is
# proved by that file, at no cost. What is left, about ninety headers, get a generated file of one line each, in one object
# library that the dev preset builds with all else. Not in ./check: a unity build compiles a header after others, which
# proves nothing, and to compile all of them once more there would cost minutes for what dev finds before a commit.
if(CMAKE_UNITY_BUILD)
  return()
endif()

set(alone)
foreach(folder compression inter diloco intra wan-sim apps)
  file(GLOB_RECURSE headers RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.h)
  # Highway includes an -inl.h once for each instruction set, and only inside its own loop.
  list(FILTER headers EXCLUDE REGEX "-inl\\.h$")
  list(APPEND alone ${headers})
endforeach()

set(sources)
foreach(header ${alone})
  file(STRINGS ${PROJECT_SOURCE_DIR}/${header} vendor REGEX "#include <(cuda|nccl|cub/|cudnn|cublas)")
  string(REGEX REPLACE "\\.h$" ".cc" own ${header})
  set(first "")
  if(EXISTS ${PROJECT_SOURCE_DIR}/${own})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${own} first REGEX "^#include" LIMIT_COUNT 1)
  endif()
  if(NOT first STREQUAL "#include \"${header}\"" AND (CAUSEWAY_HAS_CUDA OR NOT vendor))
    string(REGEX REPLACE "[/.]" "_" stem ${header})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/self_contained/${stem}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
    list(APPEND sources ${source})
  endif()
endforeach()

add_library(self_contained_headers OBJECT ${sources})
target_compile_options(self_contained_headers PRIVATE -O0 -g0)
target_link_libraries(self_contained_headers PRIVATE causeway::run causeway::wan_sim causeway_diloco_protocol OpenMP::OpenMP_CXX)
