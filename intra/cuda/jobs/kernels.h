// The jobs as kernels.
#pragma once

#include <cuda_runtime_api.h>

#include "intra/cuda/jobs/jobs.h"

namespace causeway::intra::cuda {

// Does not wait.
void launch(const Job& job, cudaStream_t stream);
void launch(const OuterJob& job, cudaStream_t stream);

}  // namespace causeway::intra::cuda
