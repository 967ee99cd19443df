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

namespace {

cudaDataType type_of(Element element) {
  return element == Element::fp32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasOperation_t transposition(bool transposed) {
  return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

cublasLtEpilogue_t epilogue_of(const Product& product) {
  switch (product.epilogue) {
    case Product::Epilogue::none:
      break;
    case Product::Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Product::Epilogue::bias_gelu:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Product::Epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

}  // namespace

ProductPlan::ProductPlan(const CublasLt& library, const Product& product) : library_(library) {
  library_.require(library_.create_operation(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                   "describing a product");
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposition(product.b.transposed));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposition(product.a.transposed));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
  if (product.before_gelu != nullptr) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.c_stride);
  }
  set_pointers(product);
  const auto operand = [&](const Product::Operand& of, std::int64_t rows, std::int64_t columns) {
    return of.transposed ? layout(product.element, columns, rows, of.stride, product.count)
                         : layout(product.element, rows, columns, of.stride, product.count);
  };
  a = operand(product.b, product.k, product.n);
  b = operand(product.a, product.m, product.k);
  c = layout(product.result, product.m, product.n, product.c_stride, product.count);
}

ProductPlan::~ProductPlan() {
  library_.destroy_operation(operation);
  for (const cublasLtMatrixLayout_t one : {a, b, c}) library_.destroy_layout(one);
}

void ProductPlan::set_pointers(const Product& product) const {
  using enum Product::Epilogue;
  if (product.epilogue == bias || product.epilogue == bias_gelu) {
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
  }
  if (product.epilogue == bias_gelu || product.epilogue == gelu_gradient) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.before_gelu);
  }
}

template <typename Value>
void ProductPlan::set(cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
  library_.require(library_.set_operation(operation, attribute, &value, sizeof value),
                   "describing a product");
}

// Matrices as stored: (rows, columns) row-major is (columns, rows) column-major.
cublasLtMatrixLayout_t ProductPlan::layout(Element element, std::int64_t rows, std::int64_t columns,
                                           std::int64_t stride, std::int64_t count) const {
  cublasLtMatrixLayout_t made = nullptr;
  library_.require(
      library_.create_layout(&made, type_of(element), static_cast<std::uint64_t>(columns),
                             static_cast<std::uint64_t>(rows), stride),
      "describing a matrix");
  if (count == 1) return made;
  const auto set_layout = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    library_.require(library_.set_layout(made, attribute, &value, sizeof value),
                     "describing matrices");
  };
  set_layout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(count));
  set_layout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * stride);
  return made;
}

}  // namespace causeway::intra::cuda
