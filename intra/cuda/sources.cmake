# What needs CUDA. Its other libraries are opened at run time (shared_library.h).
causeway_library(intra_cuda ${CMAKE_CURRENT_LIST_DIR}/device.cc ${CMAKE_CURRENT_LIST_DIR}/shared_library.cc)
target_link_libraries(causeway_intra_cuda PUBLIC causeway::worker causeway::compression_cuda ${CMAKE_DL_LIBS})
