#include "intra/cuda/device/matrix_products.h"

#include <cublasLt.h>
#include <spdlog/spdlog.h>

#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <system_error>
#include <tuple>

#include "intra/cuda/device/device.h"
#include "intra/cuda/device/shared_library.h"

namespace causeway::intra::cuda {
namespace {

// What NVIDIA recommends for Hopper; enough for all others.
constexpr std::size_t kWorkspaceBytes = 32U << 20;
// Rows and columns start at least this aligned: packs do.
constexpr std::uint32_t kAlignmentBytes = 16;

const SharedLibrary& library() {
  static const SharedLibrary opened("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR));
  return opened;
}

// The functions in use, with the types of the header.
struct Functions {
  decltype(cublasLtCreate)* create;
  decltype(cublasLtDestroy)* destroy;
  decltype(cublasLtGetStatusString)* status_string;
  decltype(cublasLtMatmul)* matmul;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic;
  decltype(cublasLtMatmulDescCreate)* create_operation;
  decltype(cublasLtMatmulDescDestroy)* destroy_operation;
  decltype(cublasLtMatmulDescSetAttribute)* set_operation;
  decltype(cublasLtMatrixLayoutCreate)* create_layout;
  decltype(cublasLtMatrixLayoutDestroy)* destroy_layout;
  decltype(cublasLtMatrixLayoutSetAttribute)* set_layout;
  decltype(cublasLtMatmulPreferenceCreate)* create_preference;
  decltype(cublasLtMatmulPreferenceDestroy)* destroy_preference;
  decltype(cublasLtMatmulPreferenceSetAttribute)* set_preference;

  Functions() {
    library().find("cublasLtCreate", create);
    library().find("cublasLtDestroy", destroy);
    library().find("cublasLtGetStatusString", status_string);
    library().find("cublasLtMatmul", matmul);
    library().find("cublasLtMatmulAlgoGetHeuristic", heuristic);
    library().find("cublasLtMatmulDescCreate", create_operation);
    library().find("cublasLtMatmulDescDestroy", destroy_operation);
    library().find("cublasLtMatmulDescSetAttribute", set_operation);
    library().find("cublasLtMatrixLayoutCreate", create_layout);
    library().find("cublasLtMatrixLayoutDestroy", destroy_layout);
    library().find("cublasLtMatrixLayoutSetAttribute", set_layout);
    library().find("cublasLtMatmulPreferenceCreate", create_preference);
    library().find("cublasLtMatmulPreferenceDestroy", destroy_preference);
    library().find("cublasLtMatmulPreferenceSetAttribute", set_preference);
  }
};

class Category : public std::error_category {
 public:
  const char* name() const noexcept override { return "cublasLt"; }
  std::string message(int code) const override { return "status " + std::to_string(code); }
};

cudaDataType type_of(Element element) {
  return element == Element::fp32 ? CUDA_R_32F : CUDA_R_16BF;
}

std::string shape_of(const Product& product) {
  return (product.count > 1 ? std::to_string(product.count) + " times " : std::string()) +
         std::to_string(product.m) + " x " + std::to_string(product.n) + " x " +
         std::to_string(product.k);
}

// All that a kernel is chosen by.
auto key_of(const Product& p) {
  return std::make_tuple(p.element, p.result, p.m, p.n, p.k, p.count, p.a.stride, p.a.transposed,
                         p.b.stride, p.b.transposed, p.c_stride, p.accumulate, p.epilogue);
}

}  // namespace

// cuBLASLt is column-major: it sees c^T (n, m) = b^T a^T, so that its A is our b.
class MatrixProducts::Implementation {
 public:
  Implementation() : workspace_(kWorkspaceBytes) {
    require(functions_.create(&handle_), "starting cuBLASLt");
  }
  ~Implementation() {
    for (auto& [key, plan] : plans_) {
      functions_.destroy_operation(plan.operation);
      for (const cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) {
        functions_.destroy_layout(layout);
      }
    }
    functions_.destroy(handle_);
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  bool run(const Product& product, cudaStream_t stream) {
    auto found = plans_.find(key_of(product));
    if (found == plans_.end()) found = plans_.emplace(key_of(product), plan(product)).first;
    const Plan& chosen = found->second;
    if (!chosen.algorithm) return false;
    set_pointers(chosen.operation, product);
    const float one = 1, beta = product.accumulate ? 1 : 0;
    require(functions_.matmul(handle_, chosen.operation, &one, product.b.values, chosen.a,
                              product.a.values, chosen.b, &beta, product.c, chosen.c, product.c,
                              chosen.c, &*chosen.algorithm, workspace_.span().data(),
                              kWorkspaceBytes, stream),
            "multiplying " + shape_of(product));
    return true;
  }

 private:
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    std::optional<cublasLtMatmulAlgo_t> algorithm;
  };

  void require(cublasStatus_t status, const std::string& doing,
               const std::source_location& where = std::source_location::current()) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    static const Category category;
    throw std::system_error(static_cast<int>(status), category,
                            doing + ": " + functions_.status_string(status) + " (" +
                                where.file_name() + ":" + std::to_string(where.line()) + ")");
  }

  template <typename Value>
  void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
           const Value& value) const {
    require(functions_.set_operation(operation, attribute, &value, sizeof value),
            "describing a product");
  }
  template <typename Value>
  void prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
              const Value& value) const {
    require(functions_.set_preference(preference, attribute, &value, sizeof value),
            "describing a product");
  }

  static cublasLtEpilogue_t epilogue_of(const Product& product) {
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

  void set_pointers(cublasLtMatmulDesc_t operation, const Product& product) const {
    using enum Product::Epilogue;
    if (product.epilogue == bias || product.epilogue == bias_gelu) {
      set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
    }
    if (product.epilogue == bias_gelu || product.epilogue == gelu_gradient) {
      set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product.before_gelu);
    }
  }

  // Matrices as stored: (rows, columns) row-major is (columns, rows) column-major.
  cublasLtMatrixLayout_t layout(Element element, std::int64_t rows, std::int64_t columns,
                                std::int64_t stride, std::int64_t count) const {
    cublasLtMatrixLayout_t made = nullptr;
    require(functions_.create_layout(&made, type_of(element), static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), stride),
            "describing a matrix");
    if (count == 1) return made;
    const auto set_layout = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      require(functions_.set_layout(made, attribute, &value, sizeof value), "describing matrices");
    };
    set_layout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(count));
    set_layout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * stride);
    return made;
  }

  cublasLtMatmulDesc_t operation(const Product& product) const {
    cublasLtMatmulDesc_t made = nullptr;
    require(functions_.create_operation(&made, CUBLAS_COMPUTE_32F, CUDA_R_32F),
            "describing a product");
    const auto transposition = [](bool transposed) {
      return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    set(made, CUBLASLT_MATMUL_DESC_TRANSA, transposition(product.b.transposed));
    set(made, CUBLASLT_MATMUL_DESC_TRANSB, transposition(product.a.transposed));
    set(made, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(product));
    if (product.before_gelu != nullptr) {
      set(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, product.c_stride);
    }
    set_pointers(made, product);
    return made;
  }

  Plan plan(const Product& product) const {
    const auto [m, n, k] = std::tuple(product.m, product.n, product.k);
    const auto operand = [&](const Product::Operand& of, std::int64_t rows, std::int64_t columns) {
      return of.transposed ? layout(product.element, columns, rows, of.stride, product.count)
                           : layout(product.element, rows, columns, of.stride, product.count);
    };
    Plan made;
    made.operation = operation(product);
    made.a = operand(product.b, k, n);
    made.b = operand(product.a, m, k);
    made.c = layout(product.result, m, n, product.c_stride, product.count);
    made.algorithm = choose(made);
    if (!made.algorithm)
      spdlog::warn("cuBLASLt has no kernel for the product {}{}: it is done in steps",
                   shape_of(product),
                   product.epilogue == Product::Epilogue::none ? "" : " with its epilogue");
    return made;
  }

  std::optional<cublasLtMatmulAlgo_t> choose(const Plan& plan) const {
    cublasLtMatmulPreference_t preference = nullptr;
    require(functions_.create_preference(&preference), "describing a product");
    prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(preference, attribute, kAlignmentBytes);
    }
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = functions_.heuristic(
        handle_, plan.operation, plan.a, plan.b, plan.c, plan.c, preference, 1, &best, &found);
    functions_.destroy_preference(preference);
    // Anything else is a mistake in the description, which no other kernel would mend.
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) require(status, "choosing a kernel for a product");
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || found == 0) return std::nullopt;
    return best.algo;
  }

  Functions functions_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceArray<std::byte> workspace_;
  std::map<decltype(key_of(Product{})), Plan> plans_;
};

MatrixProducts::MatrixProducts() : implementation_(std::make_unique<Implementation>()) {}
MatrixProducts::~MatrixProducts() = default;

bool MatrixProducts::run(const Product& product, cudaStream_t stream) {
  return implementation_->run(product, stream);
}

}  // namespace causeway::intra::cuda
