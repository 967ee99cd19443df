// A product as cuBLASLt is told of it. That is column-major: it sees c^T (n, m) = b^T a^T, so that
// its A is our b.
#pragma once

#include "intra/cuda/device/cublas_lt.h"
#include "intra/cuda/jobs/backend.h"

namespace causeway::intra::cuda {

class ProductPlan {
 public:
  ProductPlan(const CublasLt& library, const Product& product);
  ~ProductPlan();
  ProductPlan(const ProductPlan&) = delete;
  ProductPlan& operator=(const ProductPlan&) = delete;

  // Of a product that differs from the one planned in its pointers alone.
  void set_pointers(const Product& product) const;

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;

 private:
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const;
  cublasLtMatrixLayout_t layout(Element element, std::int64_t rows, std::int64_t columns,
                                std::int64_t stride, std::int64_t count) const;

  const CublasLt& library_;
};

}  // namespace causeway::intra::cuda
