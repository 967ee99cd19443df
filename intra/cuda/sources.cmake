# The training step as jobs, of causeway_intra; and what needs CUDA, whose other libraries are opened at run time
# (shared_library.h).
target_sources(
  causeway_intra
  PRIVATE ${CMAKE_CURRENT_LIST_DIR}/step/device_transformer.cc ${CMAKE_CURRENT_LIST_DIR}/step/device_transformer_backward.cc
          ${CMAKE_CURRENT_LIST_DIR}/step/device_transformer_forward.cc
          ${CMAKE_CURRENT_LIST_DIR}/step/device_bf16_sums.cc ${CMAKE_CURRENT_LIST_DIR}/step/device_muon.cc ${CMAKE_CURRENT_LIST_DIR}/step/device_optimizer.cc
          ${CMAKE_CURRENT_LIST_DIR}/step/device_spans.cc
          ${CMAKE_CURRENT_LIST_DIR}/step/device_spans_codecs.cc ${CMAKE_CURRENT_LIST_DIR}/step/device_stepper.cc)
if(CAUSEWAY_HAS_CUDA)
  # cuDNN and the headers of its frontend (PyPI: nvidia-cudnn-frontend), which lie in Python's site-packages/include; ./check has
  # its own.
  find_package(Python3 QUIET COMPONENTS Interpreter)
  if(Python3_FOUND)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import site, sys; print(';'.join([*site.getsitepackages(), site.getusersitepackages(), *sys.path]))"
                    OUTPUT_VARIABLE python_packages OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  file(GLOB fetched ${PROJECT_SOURCE_DIR}/build-tools/cuda/lib/python*/site-packages)
  list(APPEND python_packages ${fetched})
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${python_packages} PATH_SUFFIXES include)
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ${python_packages} PATH_SUFFIXES nvidia/cudnn/include)
  causeway_library(
    intra_cuda
    ${CMAKE_CURRENT_LIST_DIR}/device/cublas_lt.cc
    ${CMAKE_CURRENT_LIST_DIR}/device/cuda_backend.cc
    ${CMAKE_CURRENT_LIST_DIR}/device/device.cc
    ${CMAKE_CURRENT_LIST_DIR}/jobs/kernels.cu
    ${CMAKE_CURRENT_LIST_DIR}/device/kept_algorithms.cc
    ${CMAKE_CURRENT_LIST_DIR}/device/matrix_products.cc
    ${CMAKE_CURRENT_LIST_DIR}/jobs/outer_kernels.cu
    ${CMAKE_CURRENT_LIST_DIR}/device/shared_library.cc)
  if(CUDNN_FRONTEND_INCLUDE_DIR AND CUDNN_INCLUDE_DIR)
    target_sources(causeway_intra_cuda PRIVATE ${CMAKE_CURRENT_LIST_DIR}/device/cudnn_attention.cc)
    set_source_files_properties(
      ${CMAKE_CURRENT_LIST_DIR}/device/cudnn_attention.cc
      PROPERTIES COMPILE_DEFINITIONS "NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING;CUDNN_FRONTEND_SKIP_JSON_LIB"
                 COMPILE_OPTIONS -Wno-stringop-overflow)  # g++ 12, in the frontend
    causeway_cold_files(${CMAKE_CURRENT_LIST_DIR}/device/cudnn_attention.cc)  # cuDNN computes
    target_include_directories(causeway_intra_cuda SYSTEM PRIVATE ${CUDNN_FRONTEND_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR})
  else()
    message(STATUS "No headers of cuDNN's frontend: attention on GPUs will run on plain kernels")
    target_sources(causeway_intra_cuda PRIVATE ${CMAKE_CURRENT_LIST_DIR}/device/no_cudnn.cc)
  endif()
  # NCCL's header comes with it, not with the toolkit; the library is opened at run time as well.
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NCCL_INCLUDE_DIR)
    target_sources(causeway_intra_cuda PRIVATE ${CMAKE_CURRENT_LIST_DIR}/device/collective_nccl.cc)
    target_include_directories(causeway_intra_cuda SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
  else()
    message(STATUS "nccl.h was not found: regions of several GPUs will sum gradients by way of the host")
    target_sources(causeway_intra_cuda PRIVATE ${CMAKE_CURRENT_LIST_DIR}/device/no_nccl.cc)
  endif()
  # The inner step's numbers are not canonical (docs/gpu.md): multiply-adds are fused. Those of outer rounds are.
  set_target_properties(causeway_intra_cuda PROPERTIES CAUSEWAY_FUSED ON)
  set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/jobs/outer_kernels.cu PROPERTIES COMPILE_OPTIONS --fmad=false)
  target_link_libraries(causeway_intra_cuda PUBLIC causeway::worker causeway::compression_cuda ${CMAKE_DL_LIBS}
                        PRIVATE OpenMP::OpenMP_CXX spdlog::spdlog)
  target_link_libraries(causeway_intra PRIVATE causeway::intra_cuda)
else()
  target_sources(causeway_intra PRIVATE ${CMAKE_CURRENT_LIST_DIR}/device/no_cuda.cc)
endif()
