# Vectorised with run-time dispatch: sources of causeway_compression that live in compression/kernels.
set(compression_kernels
    ${CMAKE_CURRENT_LIST_DIR}/chunk.cc
    ${CMAKE_CURRENT_LIST_DIR}/int8.cc
    ${CMAKE_CURRENT_LIST_DIR}/topk.cc
    ${CMAKE_CURRENT_LIST_DIR}/two_bit.cc)
target_sources(causeway_compression PRIVATE ${compression_kernels})
# Highway has such a file include itself, once for each instruction set.
set_source_files_properties(${compression_kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_link_libraries(causeway_compression PRIVATE hwy::hwy)
