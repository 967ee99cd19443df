#include "intra/cuda/device/cublas_lt.h"

#include <system_error>

namespace causeway::intra::cuda {
namespace {

class Category : public std::error_category {
 public:
  const char* name() const noexcept override { return "cublasLt"; }
  std::string message(int code) const override { return "status " + std::to_string(code); }
};

}  // namespace

CublasLt::CublasLt() {
  library.find("cublasLtGetVersion", version);
  library.find("cublasLtCreate", create);
  library.find("cublasLtDestroy", destroy);
  library.find("cublasLtGetStatusString", status_string);
  library.find("cublasLtMatmul", matmul);
  library.find("cublasLtMatmulAlgoGetHeuristic", heuristic);
  library.find("cublasLtMatmulAlgoCheck", check_algorithm);
  library.find("cublasLtMatmulAlgoConfigGetAttribute", algorithm_attribute);
  library.find("cublasLtMatmulDescCreate", create_operation);
  library.find("cublasLtMatmulDescDestroy", destroy_operation);
  library.find("cublasLtMatmulDescSetAttribute", set_operation);
  library.find("cublasLtMatrixLayoutCreate", create_layout);
  library.find("cublasLtMatrixLayoutDestroy", destroy_layout);
  library.find("cublasLtMatrixLayoutSetAttribute", set_layout);
  library.find("cublasLtMatmulPreferenceCreate", create_preference);
  library.find("cublasLtMatmulPreferenceDestroy", destroy_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", set_preference);
}

void CublasLt::require(cublasStatus_t status, const std::string& doing,
                       const std::source_location& where) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  static const Category category;
  throw std::system_error(static_cast<int>(status), category,
                          doing + ": " + status_string(status) + " (" + where.file_name() + ":" +
                              std::to_string(where.line()) + ")");
}

}  // namespace causeway::intra::cuda
