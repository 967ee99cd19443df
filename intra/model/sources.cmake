# The model: sources of causeway_intra that live in intra/model.
target_sources(
  causeway_intra
  PRIVATE ${CMAKE_CURRENT_LIST_DIR}/attention.cc
          ${CMAKE_CURRENT_LIST_DIR}/kernels/attention_kernels.cc
          ${CMAKE_CURRENT_LIST_DIR}/backward.cc
          ${CMAKE_CURRENT_LIST_DIR}/buffers.cc
          ${CMAKE_CURRENT_LIST_DIR}/kernels/classifier_kernels.cc
          ${CMAKE_CURRENT_LIST_DIR}/forward.cc
          ${CMAKE_CURRENT_LIST_DIR}/gemm.cc
          ${CMAKE_CURRENT_LIST_DIR}/network.cc
          ${CMAKE_CURRENT_LIST_DIR}/kernels/norm_kernels.cc
          ${CMAKE_CURRENT_LIST_DIR}/parameters.cc
          ${CMAKE_CURRENT_LIST_DIR}/kernels/pointwise_kernels.cc
          ${CMAKE_CURRENT_LIST_DIR}/kernels/random_kernels.cc
          ${CMAKE_CURRENT_LIST_DIR}/transformer.cc)
# Highway has such a file include itself, once for each instruction set.
set_source_files_properties(
  ${CMAKE_CURRENT_LIST_DIR}/kernels/attention_kernels.cc ${CMAKE_CURRENT_LIST_DIR}/kernels/classifier_kernels.cc
  ${CMAKE_CURRENT_LIST_DIR}/kernels/norm_kernels.cc ${CMAKE_CURRENT_LIST_DIR}/kernels/pointwise_kernels.cc
  ${CMAKE_CURRENT_LIST_DIR}/kernels/random_kernels.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_link_libraries(causeway_intra PRIVATE Dnnl::dnnl OpenMP::OpenMP_CXX hwy::hwy hwy::hwy_contrib)
