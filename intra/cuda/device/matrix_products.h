// Matrix products by cuBLASLt. Which of its algorithms does a product is chosen once per shape: the
// first that the library proposes, the same on every machine of one kind; or the fastest of some,
// timed once on this machine and kept (kept_algorithms.h). All give the same bits in every run.
#pragma once

#include <cuda_runtime_api.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "intra/cuda/jobs/backend.h"

namespace causeway::intra::cuda {

class MatrixProducts {
 public:
  // `kept`: algorithms are timed, and kept in this file. Throws if cuBLASLt cannot be opened.
  MatrixProducts(const std::string& device_name, const std::optional<std::filesystem::path>& kept);
  ~MatrixProducts();

  // False if cuBLASLt has no kernel for such a product: for epilogues. Does not wait, but for the
  // timing of a shape's first product.
  bool run(const Product& product, cudaStream_t stream);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::intra::cuda
