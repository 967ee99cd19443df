// Matrix products by cuBLASLt, chosen by its heuristic once per shape: the same kernels, and so the
// same bits, in every run on one kind of GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "intra/cuda/jobs/backend.h"

namespace causeway::intra::cuda {

class MatrixProducts {
 public:
  // Throws if cuBLASLt cannot be opened.
  MatrixProducts();
  ~MatrixProducts();

  // False if cuBLASLt has no kernel for such a product: for epilogues. Does not wait.
  bool run(const Product& product, cudaStream_t stream);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::intra::cuda
