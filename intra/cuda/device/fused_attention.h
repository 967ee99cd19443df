// Attention by one library kernel each way, where there is one.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "intra/cuda/jobs/jobs.h"

namespace causeway::intra::cuda {

class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  // As Backend::attend(). False, and nothing done, if there is no deterministic kernel for it.
  virtual bool run(const AttentionArrays<Bfloat16>& arrays, cudaStream_t stream) = 0;
};

// cuDNN's (cudnn_attention.cc); null, with a word in the log, if the build found no headers of its
// frontend or it cannot be opened here.
std::unique_ptr<FusedAttention> make_fused_attention();

}  // namespace causeway::intra::cuda
