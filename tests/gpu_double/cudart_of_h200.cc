// What cuDNN's frontend asks CUDA's runtime about the GPU, answered as an H200 would.
#include <cuda_runtime_api.h>

extern "C" {

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t) {
  return "an error on a GPU that is not there";
}

}  // extern "C"
