# What needs CUDA. Its other libraries are opened at run time (shared_library.h).
causeway_library(intra_cuda ${CMAKE_CURRENT_LIST_DIR}/device.cc ${CMAKE_CURRENT_LIST_DIR}/shared_library.cc)
target_link_libraries(causeway_intra_cuda PUBLIC causeway::worker causeway::compression_cuda ${CMAKE_DL_LIBS})

# NCCL's header comes with it, not with the toolkit; the library is opened at run time as well.
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(NCCL_INCLUDE_DIR)
  causeway_library(intra_nccl ${CMAKE_CURRENT_LIST_DIR}/collective_nccl.cc)
  target_include_directories(causeway_intra_nccl PRIVATE ${NCCL_INCLUDE_DIR})
  target_link_libraries(causeway_intra_nccl PUBLIC causeway::intra_cuda causeway::intra)
else()
  message(STATUS "nccl.h was not found: regions of several GPUs are not built")
endif()
