// The jobs of chunk_jobs.h as kernels, a block per chunk. Device pointers only; nothing waits.
#pragma once

#include <cuda_runtime_api.h>

#include "compression/cuda/chunk_jobs.h"

namespace causeway::compression::cuda {

void launch(const EncodeTopK& job, cudaStream_t stream);
void launch(const EncodeInt8& job, cudaStream_t stream);
void launch(const DecodeTopK& job, cudaStream_t stream);
void launch(const DecodeInt8& job, cudaStream_t stream);

}  // namespace causeway::compression::cuda
