// What cuBLASLt's double refuses.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "intra/cuda/device/cuda_backend.h"
#include "intra/cuda/device/device.h"
#include "intra/cuda/device/shared_library.h"

namespace causeway::gpu_double {
namespace {

using intra::cuda::CudaBackend;
using intra::cuda::DeviceArray;
using intra::cuda::Stream;

// Products whose c has `stride`: whether the backend throws.
bool is_refused(std::int64_t stride, std::size_t shift_bytes = 0, std::int64_t count = 1,
                intra::cuda::Product::Epilogue epilogue = {}) {
  CudaBackend backend(0, {.graphs = false, .fused_attention = false});
  intra::cuda::Product product;
  product.m = product.n = product.k = 16;
  product.count = count;
  product.epilogue = epilogue;
  product.bias = backend.allocate(4096);
  product.a = {backend.allocate(4096), 16, false};
  product.b = {backend.allocate(4096), 16, false};
  product.c = backend.allocate(4096) + shift_bytes;
  product.c_stride = stride;
  try {
    backend.multiply(product);
    backend.point()->wait();
    return false;
  } catch (const std::system_error&) {
    return true;
  }
}

TEST(Doubles, AWrongStrideOrAlignmentOfAProductIsRefused) {
  EXPECT_FALSE(is_refused(16));
  EXPECT_FALSE(is_refused(24));
  EXPECT_TRUE(is_refused(8));   // shorter than a row
  EXPECT_TRUE(is_refused(17));  // not aligned
  EXPECT_TRUE(is_refused(16, 4));
}

TEST(Doubles, SeveralProductsHaveNoEpilogue) {
  EXPECT_FALSE(is_refused(16, 0, 3));
  EXPECT_FALSE(is_refused(16, 0, 1, intra::cuda::Product::Epilogue::bias));
  EXPECT_TRUE(is_refused(16, 0, 3, intra::cuda::Product::Epilogue::bias));
}

// cuBLASLt's functions as the program finds them, and an algorithm for products of 16 x 16
// matrices.
class CublasLtDouble : public testing::Test {
 protected:
  CublasLtDouble() {
    library_.find("cublasLtMatmulDescCreate", create_description_);
    library_.find("cublasLtMatrixLayoutCreate", create_layout_);
    library_.find("cublasLtMatmulPreferenceCreate", create_preference_);
    library_.find("cublasLtMatmulPreferenceSetAttribute", prefer_);
    library_.find("cublasLtMatmulAlgoGetHeuristic", choose_);
    library_.find("cublasLtMatmul", multiply_);
  }
  void SetUp() override {
    ASSERT_EQ(create_description_(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulPreference_t preference = nullptr;
    ASSERT_EQ(create_preference_(&preference), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(prefer_(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kMost, sizeof kMost),
              CUBLAS_STATUS_SUCCESS);
    const cublasLtMatrixLayout_t matrix = layout(16);
    int found = 0;
    ASSERT_EQ(choose_(nullptr, description_, matrix, matrix, matrix, matrix, preference, 1,
                      &chosen_, &found),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(found, 1);
  }
  cublasLtMatrixLayout_t layout(std::uint64_t size) {
    cublasLtMatrixLayout_t made = nullptr;
    EXPECT_EQ(create_layout_(&made, CUDA_R_32F, size, size, static_cast<std::int64_t>(size)),
              CUBLAS_STATUS_SUCCESS);
    return made;
  }
  // Of size x size matrices, by the algorithm that was chosen.
  cublasStatus_t multiply(std::uint64_t size, std::size_t workspace_bytes) {
    const float one = 1, zero = 0;
    float* const values = matrix_.span().data();
    const cublasLtMatrixLayout_t of = layout(size);
    return multiply_(nullptr, description_, &one, values, of, values, of, &zero, values, of, values,
                     of, &chosen_.algo, workspace_.span().data(), workspace_bytes, stream_.get());
  }

  static constexpr std::size_t kMost = std::size_t{4} << 20;
  const intra::cuda::SharedLibrary library_{"libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR)};
  decltype(cublasLtMatmulDescCreate)* create_description_ = nullptr;
  decltype(cublasLtMatrixLayoutCreate)* create_layout_ = nullptr;
  decltype(cublasLtMatmulPreferenceCreate)* create_preference_ = nullptr;
  decltype(cublasLtMatmulPreferenceSetAttribute)* prefer_ = nullptr;
  decltype(cublasLtMatmulAlgoGetHeuristic)* choose_ = nullptr;
  decltype(cublasLtMatmul)* multiply_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_{};
  const DeviceArray<float> matrix_{32 * 32};
  const DeviceArray<std::byte> workspace_{kMost};
  const Stream stream_;
};

TEST_F(CublasLtDouble, AnAlgorithmOfAnotherProductIsRefused) {
  EXPECT_EQ(multiply(16, kMost), CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(multiply(32, kMost), CUBLAS_STATUS_SUCCESS);
}

TEST_F(CublasLtDouble, AWorkspaceThatIsTooSmallIsRefused) {
  EXPECT_EQ(multiply(16, chosen_.workspaceSize), CUBLAS_STATUS_SUCCESS);
  EXPECT_NE(multiply(16, chosen_.workspaceSize - 1), CUBLAS_STATUS_SUCCESS);
}

}  // namespace
}  // namespace causeway::gpu_double
