// A double of the cuBLASLt calls that Causeway makes, as a shared library of its name: every
// description is checked against the documentation of the library before anything is computed, and
// a product is computed when its stream gets there. Matrices are column-major.
#include <cublasLt.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <vector>

#include "tests/gpu_double/cudart.h"

struct cublasLtMatmulDescInner {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* auxiliary = nullptr;
  std::int64_t auxiliary_stride = 0;
};
struct cublasLtMatmulPreferenceInner {
  std::uint64_t workspace_bytes = 0;
};
struct cublasLtMatrixLayoutInner {
  cudaDataType type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t stride = 0;
  std::int32_t count = 1;
  std::int64_t apart = 0;  // in elements, from one of the `count` matrices to the next
};

namespace {

using Description = cublasLtMatmulDescInner;
using Layout = cublasLtMatrixLayoutInner;

constexpr std::uintptr_t kAlignment = 16;

Description& of(cublasLtMatmulDesc_t opaque) {
  return *reinterpret_cast<Description*>(opaque);
}
const Layout& of(cublasLtMatrixLayout_t opaque) {
  return *reinterpret_cast<const Layout*>(opaque);
}

// An algorithm is for what it was chosen for, and works in this much memory.
constexpr std::uint64_t kWorkspaceBytes = std::uint64_t{1} << 20;

// What the library proposes, in this order. All but the first sum the other way round.
struct Kind {
  double milliseconds;
  std::uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  bool works = true;  // when it comes to it
};
constexpr Kind kKinds[]{
    {1}, {0.2, CUBLASLT_REDUCTION_SCHEME_INPLACE}, {0.6}, {0.1, 0, false}, {0.8}};
constexpr std::uint64_t kKindCount = std::size(kKinds);

std::uint64_t& kind_of(cublasLtMatmulAlgo_t& algorithm) {
  return algorithm.data[1];
}
std::uint64_t kind_of(const cublasLtMatmulAlgo_t& algorithm) {
  return algorithm.data[1];
}

std::uint64_t fingerprint(const Description& d, const Layout& a, const Layout& b, const Layout& c) {
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto add = [&](auto value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001B3;
  };
  for (const auto value : {d.a, d.b}) add(value);
  add(d.epilogue);
  add(d.auxiliary_stride);
  for (const Layout* layout : {&a, &b, &c}) {
    add(layout->type);
    add(layout->rows);
    add(layout->columns);
    add(layout->stride);
    add(layout->count);
    add(layout->apart);
  }
  return hash;
}

cublasStatus_t wrong(const char* what) {
  std::fprintf(stderr, "cuBLASLt double: %s\n", what);
  return CUBLAS_STATUS_INVALID_VALUE;
}

std::size_t bytes_of(cudaDataType type) {
  return type == CUDA_R_32F ? 4 : 2;
}
bool is_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0;
}
bool has_bias(const Description& d) {
  return d.epilogue == CUBLASLT_EPILOGUE_BIAS || d.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}
bool has_auxiliary(const Description& d) {
  return d.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || d.epilogue == CUBLASLT_EPILOGUE_DGELU;
}

cublasStatus_t check(const Description& d, const Layout& a, const Layout& b, const Layout& c) {
  const std::uint64_t m = d.a == CUBLAS_OP_N ? a.rows : a.columns;
  const std::uint64_t k = d.a == CUBLAS_OP_N ? a.columns : a.rows;
  const std::uint64_t k_of_b = d.b == CUBLAS_OP_N ? b.rows : b.columns;
  const std::uint64_t n = d.b == CUBLAS_OP_N ? b.columns : b.rows;
  if (k != k_of_b || m != c.rows || n != c.columns) return wrong("the shapes do not fit");
  if (a.count != b.count || a.count != c.count) return wrong("the numbers of matrices differ");
  if (c.count > 1 && (d.epilogue != CUBLASLT_EPILOGUE_DEFAULT ||
                      c.apart < c.stride * static_cast<std::int64_t>(c.columns)))
    return wrong("several products have an epilogue, or results that overlap");
  if (a.type != b.type) return wrong("the operands have different types");
  if (c.type != a.type && !(a.type == CUDA_R_16BF && c.type == CUDA_R_32F))
    return wrong("no product of these types gives that type");
  for (const Layout* layout : {&a, &b, &c}) {
    if (layout->stride < static_cast<std::int64_t>(layout->rows))
      return wrong("a stride is shorter than a column");
    if (static_cast<std::size_t>(layout->stride) * bytes_of(layout->type) % kAlignment != 0)
      return wrong("a stride is not aligned as the preference says");
    if (static_cast<std::size_t>(layout->apart) * bytes_of(layout->type) % kAlignment != 0)
      return wrong("not every matrix is aligned as the preference says");
  }
  if (has_bias(d) && (d.bias == nullptr || !is_aligned(d.bias)))
    return wrong("the bias is missing or not aligned");
  if (!has_auxiliary(d)) return CUBLAS_STATUS_SUCCESS;
  if (d.auxiliary == nullptr || !is_aligned(d.auxiliary))
    return wrong("the auxiliary matrix is missing or not aligned");
  if (d.auxiliary_stride % 8 != 0 || d.auxiliary_stride < static_cast<std::int64_t>(c.rows))
    return wrong("the auxiliary stride is no multiple of 8, or shorter than a column");
  return CUBLAS_STATUS_SUCCESS;
}

float get(const void* values, cudaDataType type, std::uint64_t i) {
  if (type == CUDA_R_32F) return static_cast<const float*>(values)[i];
  return std::bit_cast<float>(std::uint32_t{static_cast<const std::uint16_t*>(values)[i]} << 16);
}
void put(void* values, cudaDataType type, std::uint64_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(values)[i] = value;
    return;
  }
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded =
      std::isnan(value) ? bits | 0x400000 : bits + 0x7FFF + (bits >> 16 & 1);
  static_cast<std::uint16_t*>(values)[i] = static_cast<std::uint16_t>(rounded >> 16);
}

// The tanh form, as CUBLASLT_EPILOGUE_GELU has it.
float gelu(float x) {
  return 0.5F * x * (1 + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x)));
}
float gelu_slope(float x) {
  const float t = std::tanh(0.7978845608F * (x + 0.044715F * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * 0.7978845608F * (1 + 3 * 0.044715F * x * x);
}

struct Product {
  Description d;
  Layout a, b, c;
  const void *a_values, *b_values;
  void* c_values;
  float alpha, beta;
  std::uint64_t kind;

  // An operand as rows of k numbers each, so that sums go through memory in order.
  static std::vector<float> rows_of(const void* values, const Layout& layout, bool by_column) {
    std::vector<float> rows;
    rows.reserve(layout.rows * layout.columns);
    const std::uint64_t outer = by_column ? layout.columns : layout.rows;
    const std::uint64_t inner = by_column ? layout.rows : layout.columns;
    const auto stride = static_cast<std::uint64_t>(layout.stride);
    for (std::uint64_t i = 0; i < outer; ++i) {
      for (std::uint64_t l = 0; l < inner; ++l)
        rows.push_back(get(values, layout.type, by_column ? l + i * stride : i + l * stride));
    }
    return rows;
  }

  void compute() const {
    causeway::gpu_double::spend(kKinds[kind].milliseconds);
    for (std::int32_t i = 0; i < c.count; ++i) {
      const auto from = [i](const Layout& layout) {
        return static_cast<std::size_t>(i * layout.apart) * bytes_of(layout.type);
      };
      Product one = *this;
      one.a_values = static_cast<const std::byte*>(a_values) + from(a);
      one.b_values = static_cast<const std::byte*>(b_values) + from(b);
      one.c_values = static_cast<std::byte*>(c_values) + from(c);
      one.compute_one();
    }
  }

  void compute_one() const {
    const std::uint64_t k = d.a == CUBLAS_OP_N ? a.columns : a.rows;
    const std::vector<float> rows = rows_of(a_values, a, d.a != CUBLAS_OP_N);
    const std::vector<float> columns = rows_of(b_values, b, d.b == CUBLAS_OP_N);
    const auto sum_of = [&](std::uint64_t i, std::uint64_t j) {
      float sum = 0;
      for (std::uint64_t step = 0; step < k; ++step) {
        const std::uint64_t l = kind == 0 ? step : k - 1 - step;
        sum += rows[i * k + l] * columns[j * k + l];
      }
      return sum;
    };
    for (std::uint64_t j = 0; j < c.columns; ++j) {
      for (std::uint64_t i = 0; i < c.rows; ++i) {
        const std::uint64_t at = i + j * static_cast<std::uint64_t>(c.stride);
        const std::uint64_t beside = i + j * static_cast<std::uint64_t>(d.auxiliary_stride);
        float value = alpha * sum_of(i, j);
        if (beta != 0) value += beta * get(c_values, c.type, at);
        if (has_bias(d)) value += get(d.bias, c.type, i);
        if (d.epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
          put(d.auxiliary, c.type, beside, value);
          value = gelu(value);
        } else if (d.epilogue == CUBLASLT_EPILOGUE_DGELU) {
          value *= gelu_slope(get(d.auxiliary, c.type, beside));
        }
        put(c_values, c.type, at, value);
      }
    }
  }
};

template <typename Value>
cublasStatus_t take(const void* value, std::size_t bytes, Value& into) {
  if (bytes != sizeof into) return wrong("an attribute has another size");
  std::memcpy(&into, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

size_t cublasLtGetVersion() {
  return CUBLAS_VERSION;
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int some = 0;
  *handle = reinterpret_cast<cublasLtHandle_t>(&some);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "success" : "refused by the double";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
    return wrong("only sums in fp32 are known here");
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(new Description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete &of(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  Description& d = of(description);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(value, bytes, d.a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(value, bytes, d.b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(value, bytes, d.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(value, bytes, d.bias);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take(value, bytes, d.auxiliary);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take(value, bytes, d.auxiliary_stride);
    default:
      return wrong("an attribute that is not known here");
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride) {
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, stride});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete &of(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t opaque,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, size_t bytes) {
  auto& layout = *reinterpret_cast<Layout*>(opaque);
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return take(value, bytes, layout.count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take(value, bytes, layout.apart);
    default:
      return wrong("an attribute of a matrix that is not known here");
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(new cublasLtMatmulPreferenceInner);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<cublasLtMatmulPreferenceInner*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return take(value, bytes,
                reinterpret_cast<cublasLtMatmulPreferenceInner*>(preference)->workspace_bytes);
  }
  return bytes == 4 ? CUBLAS_STATUS_SUCCESS : wrong("a preference has another size");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  *found = 0;
  if (c != d) return wrong("the result is to be another matrix than the one added to");
  const cublasStatus_t status = check(of(description), of(a), of(b), of(c));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  // As the library: no fused GELU for fp32.
  if (of(a).type == CUDA_R_32F && has_auxiliary(of(description)))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (reinterpret_cast<cublasLtMatmulPreferenceInner*>(preference)->workspace_bytes <
      kWorkspaceBytes)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (std::uint64_t kind = 0; kind < kKindCount && *found < most; ++kind) {
    cublasLtMatmulHeuristicResult_t& result = results[(*found)++];
    result = {};
    result.algo.data[0] = fingerprint(of(description), of(a), of(b), of(c));
    kind_of(result.algo) = kind;
    result.workspaceSize = kWorkspaceBytes;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (algorithm->data[0] != fingerprint(of(description), of(a), of(b), of(c)) ||
      kind_of(*algorithm) >= kKindCount)
    return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = kWorkspaceBytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void* value, size_t bytes, size_t* written) {
  if (attribute != CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME || bytes != sizeof(std::uint32_t))
    return wrong("an attribute of an algorithm that is not known here");
  std::memcpy(value, &kKinds[kind_of(*algorithm)].reduction, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha,
                              const void* a_values, cublasLtMatrixLayout_t a, const void* b_values,
                              cublasLtMatrixLayout_t b, const void* beta, const void* c_values,
                              cublasLtMatrixLayout_t c, void* d_values, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  if (algorithm == nullptr || c_values != d_values || c != d) return wrong("not as it was planned");
  const cublasStatus_t status = check(of(description), of(a), of(b), of(c));
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (algorithm->data[0] != fingerprint(of(description), of(a), of(b), of(c)))
    return wrong("an algorithm that was chosen for another product");
  if (!kKinds[kind_of(*algorithm)].works) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (workspace_bytes < kWorkspaceBytes ||
      causeway::gpu_double::where(workspace, workspace_bytes) !=
          causeway::gpu_double::Where::device)
    return wrong("the workspace is smaller than the algorithm's, or no device memory");
  for (const void* values : {a_values, b_values, static_cast<const void*>(d_values)}) {
    if (!is_aligned(values)) return wrong("a matrix is not aligned as the preference says");
  }
  const Product product{of(description),
                        of(a),
                        of(b),
                        of(c),
                        a_values,
                        b_values,
                        d_values,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        kind_of(*algorithm)};
  causeway::gpu_double::enqueue(stream, [product] { product.compute(); });
  return CUBLAS_STATUS_SUCCESS;
}
}
