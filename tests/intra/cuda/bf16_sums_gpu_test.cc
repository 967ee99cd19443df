// Sums in bfloat16 on GPUs: over NCCL where each rank has one of its own, by way of the host where
// they share one.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "intra/cuda/device/cuda_backend.h"
#include "tests/intra/collective/bf16_sums_conformance.h"
#include "tests/intra/cuda/on_backend.h"

namespace causeway::intra {
namespace {

std::vector<Bf16SumsUnderTest> all_under_test() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess) gpus = 0;
  const auto on = [](const auto& gpu_of) {
    return cuda::sums_on_backend([gpu_of](std::size_t rank) {
      return std::make_unique<cuda::CudaBackend>(gpu_of(rank),
                                                 cuda::CudaOptions{.fused_attention = false});
    });
  };
  std::vector<Bf16SumsUnderTest> all;
  if (gpus > 0) all.push_back({"ByHosts", 2, on([](std::size_t) { return 0; })});
  for (std::size_t world = 2; world <= std::min<std::size_t>(3, static_cast<std::size_t>(gpus));
       ++world)
    all.push_back({"Nccl", world, on([](std::size_t rank) { return static_cast<int>(rank); })});
  return all;
}

INSTANTIATE_TEST_SUITE_P(OnGpu, Bf16SumsConformance, testing::ValuesIn(all_under_test()),
                         name_of_sums);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Bf16SumsConformance);

}  // namespace
}  // namespace causeway::intra
