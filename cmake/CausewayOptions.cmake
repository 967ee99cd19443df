# What every target of ours compiles with, as an interface target: no global flags.

add_library(causeway_options INTERFACE)
target_compile_features(causeway_options INTERFACE cxx_std_20)
# In cmake/once stand headers before those of libraries, so that what the library has already is not compiled in every file.
target_include_directories(causeway_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/cmake/once>
                                                      ${PROJECT_SOURCE_DIR})
target_compile_options(
  causeway_options
  INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wall>
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wextra>
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wpedantic>
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wshadow>
    $<$<COMPILE_LANGUAGE:C,CXX>:-Wnon-virtual-dtor>
    # GCC 12 sees overlapping copies in every `"text" + string` (GCC bug 105651).
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
    # It also sees writes past the end where fmt reads a format, at -O3.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>
    # Canonical maths must give the same bits on every machine: no fused multiply-add behind our back.
    $<$<COMPILE_LANGUAGE:C,CXX>:-ffp-contract=off>
    # For the device: the same but for targets with CAUSEWAY_FUSED, and constexpr functions count as device code too. CMake 3.25 knows of no C++20 in nvcc.
    $<$<COMPILE_LANGUAGE:CUDA>:--std=c++20>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<NOT:$<BOOL:$<TARGET_PROPERTY:CAUSEWAY_FUSED>>>>:--fmad=false>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-ffp-contract=off>
    # Asserts live in release builds too.
    -UNDEBUG)
# GCC looks for memory that it can use again, which takes a tenth of its time. It need not where there is plenty.
cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR memory_mib_of_a_core "${memory_mib} / ${cores}")
if(memory_mib_of_a_core GREATER_EQUAL 3000)
  target_compile_options(causeway_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=2000000>)
endif()
if(CAUSEWAY_WERROR)
  target_compile_options(causeway_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>
                                                    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(CMAKE_UNITY_BUILD)
  # Several files compiled as one: GCC takes what is private to each for something that a header gives to others.
  target_compile_options(causeway_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
if(NOT CAUSEWAY_SANITIZE)
  # Where functions of libraries lie is settled, and made read-only, before main.
  target_link_options(causeway_options INTERFACE LINKER:-z,relro,-z,now)
else()
  target_compile_options(causeway_options INTERFACE -fsanitize=${CAUSEWAY_SANITIZE}
                                                    -fno-omit-frame-pointer)
  target_link_options(causeway_options INTERFACE -fsanitize=${CAUSEWAY_SANITIZE})
  # Instrumented, an optional or a std::function looks uninitialised to GCC.
  target_compile_options(causeway_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  if(CAUSEWAY_SANITIZE MATCHES thread)
    # Asio uses fences, which TSan does not model; GCC warns of each, hundreds of times.
    target_compile_options(causeway_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

# Asio, as Debian ships it: headers. What need not be compiled in every file is compiled once, in inter/base/asio.cc.
# Clang 14 hides coroutines unless told that it has them. Which allocator Asio 1.22 takes depends on what was included
# before it, so that two files can disagree: the answer is given here.
add_library(causeway_asio INTERFACE)
target_compile_definitions(
  causeway_asio INTERFACE ASIO_STANDALONE ASIO_SEPARATE_COMPILATION ASIO_NO_DEPRECATED ASIO_HAS_STD_ALIGNED_ALLOC=1
                          $<$<CXX_COMPILER_ID:Clang>:ASIO_HAS_CO_AWAIT=1 ASIO_HAS_STD_COROUTINE=1>)
target_link_libraries(causeway_asio INTERFACE Threads::Threads)
# At -O1 GCC 12 inlines aligned_alloc() into operator new of Asio's coroutine frames but not free() into their
# operator delete, and takes the two for a mismatch.
target_compile_options(causeway_asio INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-mismatched-new-delete>)

# What does not compute is optimised less, which compiles in two thirds of the time. A build that asks for less than -O3 gets that.
function(causeway_cold target)
  if(CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>
                                             $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-finline-small-functions>)
  endif()
endfunction()

# Files of such a target that compute all the same.
function(causeway_hot)
  # Each is compiled alone in every build. With -O3 it is so anyway, as files with options of their own are.
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3")
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS -O3)
  endif()
endfunction()

# Files that do not compute, of a target that does.
function(causeway_cold_files)
  if(CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -O1 -finline-small-functions)
  endif()
endfunction()

# A library of ours: one per folder, with the alias causeway::NAME. What follows COLD does not compute: it is compiled as NAME_cold,
# with what NAME links and defines. Other properties must be set for both.
function(causeway_library name)
  cmake_parse_arguments(PARSE_ARGV 1 it "" "" COLD)
  set(library causeway_${name})
  add_library(${library} STATIC ${it_UNPARSED_ARGUMENTS})
  add_library(causeway::${name} ALIAS ${library})
  target_link_libraries(${library} PUBLIC causeway_options)
  if(it_COLD)
    add_library(${library}_cold OBJECT ${it_COLD})
    target_link_libraries(${library}_cold PRIVATE $<TARGET_PROPERTY:${library},LINK_LIBRARIES>)
    target_compile_definitions(${library}_cold PRIVATE $<TARGET_PROPERTY:${library},COMPILE_DEFINITIONS>)
    causeway_cold(${library}_cold)
    target_sources(${library} PRIVATE $<TARGET_OBJECTS:${library}_cold>)
  endif()
endfunction()
