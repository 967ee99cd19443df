// cuBLASLt, opened when it is used (shared_library.h): the functions in use, with the types of the
// header.
#pragma once

#include <cublasLt.h>

#include <source_location>
#include <string>

#include "intra/cuda/device/shared_library.h"
#include "intra/cuda/jobs/backend.h"

namespace causeway::intra::cuda {

struct CublasLt {
  // Throws std::system_error saying what to install.
  CublasLt();

  // Throws std::system_error for what is no success.
  void require(cublasStatus_t status, const std::string& doing,
               const std::source_location& where = std::source_location::current()) const;

  SharedLibrary library{"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)};
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetStatusString) status_string = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoCheck) check_algorithm = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algorithm_attribute = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_operation = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_operation = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_operation = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
};

// A product as cuBLASLt is told of it. That is column-major: it sees c^T (n, m) = b^T a^T, so that
// its A is our b.
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
