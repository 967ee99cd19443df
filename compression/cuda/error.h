// CUDA's errors as std::system_error.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <system_error>

namespace causeway::compression::cuda {

const std::error_category& cuda_category();

// Throws with what was being done, file and line, and what to do about it, unless cudaSuccess.
void check(cudaError_t error, const char* doing,
           const std::source_location& where = std::source_location::current());

}  // namespace causeway::compression::cuda
