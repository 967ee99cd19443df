// Outer rounds on a GPU against the CPU's: the same bits.
#include "intra/cuda/cuda_backend.h"
#include "tests/intra/cuda/on_gpu.h"
#include "tests/intra/cuda/outer_history.h"

namespace causeway::intra::cuda {
namespace {

class OuterRoundOnGpu : public OnGpu, public testing::WithParamInterface<HistoryCase> {};

TEST_P(OuterRoundOnGpu, HasTheBitsOfTheCpu) {
  expect_same_history(GetParam(), [] { return std::make_unique<CudaBackend>(); });
}

INSTANTIATE_TEST_SUITE_P(Cases, OuterRoundOnGpu, testing::ValuesIn(history_cases()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace causeway::intra::cuda
