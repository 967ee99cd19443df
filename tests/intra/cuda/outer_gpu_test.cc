// Outer rounds on a GPU against the CPU's: the same bits.
#include "intra/cuda/device/cuda_backend.h"
#include "tests/intra/cuda/on_gpu.h"
#include "tests/intra/cuda/outer_history.h"
#include "tests/intra/cuda/rounds_beside_steps.h"

namespace causeway::intra::cuda {
namespace {

class OuterRoundOnGpu : public OnGpu, public testing::WithParamInterface<HistoryCase> {};

TEST_P(OuterRoundOnGpu, HasTheBitsOfTheCpu) {
  expect_same_history(GetParam(), [] { return std::make_unique<CudaBackend>(); });
}

class RoundsOnGpu : public OnGpu, public testing::WithParamInterface<RoundsCase> {};

TEST_P(RoundsOnGpu, LeadToTheBitsOfRoundsInTheState) {
  expect_bits_of_rounds_in_the_state(GetParam(), [] { return std::make_unique<CudaBackend>(); });
}

TEST_P(RoundsOnGpu, DoSoWithoutRecordedSteps) {
  expect_bits_of_rounds_in_the_state(
      GetParam(), [] { return std::make_unique<CudaBackend>(0, CudaOptions{.graphs = false}); });
}

#ifdef CAUSEWAY_ON_FIBRES  // minutes; what they add is in streams, not in kernels
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RoundsOnGpu);
#else
// On a GPU large enough that steps and rounds are under way at the same time; a double works when
// somebody waits for it, however little it is.
ModelOptions larger_llama() {
#ifdef CAUSEWAY_ON_DOUBLE
  return llama();
#endif
  return {.family = ModelOptions::Family::llama,
          .vocabulary = 4096,
          .context = 512,
          .layers = 6,
          .width = 512,
          .heads = 8,
          .kv_heads = 4,
          .hidden = 1376};
}

INSTANTIATE_TEST_SUITE_P(Cases, RoundsOnGpu, testing::ValuesIn(rounds_cases(larger_llama())));
#endif

INSTANTIATE_TEST_SUITE_P(Cases, OuterRoundOnGpu, testing::ValuesIn(history_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace causeway::intra::cuda
