#include "compression/cuda/error.h"

#include <string>

namespace causeway::compression::cuda {
namespace {

class Category : public std::error_category {
 public:
  const char* name() const noexcept override { return "cuda"; }
  std::string message(int code) const override {
    return cudaGetErrorString(static_cast<cudaError_t>(code));
  }
};

const char* hint(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
      return "; nvidia-smi shows which GPU and driver there are";
    case cudaErrorMemoryAllocation:
      return "; nvidia-smi shows what else uses the GPU's memory";
    case cudaErrorNoKernelImageForDevice:
      return "; build for this GPU with -DCMAKE_CUDA_ARCHITECTURES=native";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
      return "; run under compute-sanitizer to see which access it was";
    default:
      return "";
  }
}

}  // namespace

const std::error_category& cuda_category() {
  static const Category category;
  return category;
}

void check(cudaError_t error, const char* doing, const std::source_location& where) {
  if (error == cudaSuccess) return;
  throw std::system_error(static_cast<int>(error), cuda_category(),
                          std::string(doing) + " (" + where.file_name() + ":" +
                              std::to_string(where.line()) + hint(error) + ")");
}

}  // namespace causeway::compression::cuda
