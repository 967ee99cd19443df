# Vectorised with run-time dispatch: sources of causeway_compression that live in compression/kernels.
target_sources(causeway_compression PRIVATE ${CMAKE_CURRENT_LIST_DIR}/chunk.cc
                                            ${CMAKE_CURRENT_LIST_DIR}/int8.cc
                                            ${CMAKE_CURRENT_LIST_DIR}/select.cc
                                            ${CMAKE_CURRENT_LIST_DIR}/two_bit.cc)
target_link_libraries(causeway_compression PRIVATE hwy::hwy)
