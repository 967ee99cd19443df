// The conformance suite over NCCL, one GPU per rank.
#include "intra/cuda/device/collective_nccl.h"

#include "intra/cuda/device/device.h"
#include "tests/intra/collective/collective_conformance.h"
#include "tests/intra/cuda/on_gpu.h"

namespace causeway::intra::cuda {
namespace {

// Sees to it that there is a GPU, which a parameter cannot.
class OverNccl : public OnGpu {};

std::size_t gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? static_cast<std::size_t>(count) : 0;
}

// Its group of hosts lives as long as the rank's thread.
std::unique_ptr<Collective> make(const Rendezvous& rendezvous) {
  thread_local std::unique_ptr<Collective> hosts;
  use_device(static_cast<int>(rendezvous.rank));
  hosts = make_collective(rendezvous);
  return make_nccl_collective(*hosts, rendezvous.deadline);
}

void on_gpu(std::span<float> values, const CollectiveUnderTest::OnValues& operation) {
  const DeviceArray<float> there(values.size());
  const Stream stream;
  copy<float>(values, there.span(), stream);
  stream.synchronize();
  operation(there.span());
  copy<float>(there.span(), values, stream);
  stream.synchronize();
}

}  // namespace
}  // namespace causeway::intra::cuda

namespace causeway::intra {

// Two or three ranks need as many GPUs; without one there is nothing to run, and OverNccl says so.
INSTANTIATE_TEST_SUITE_P(Nccl, CollectiveConformance, testing::ValuesIn([] {
                           std::vector<CollectiveUnderTest> tested;
                           for (std::size_t world = 1;
                                world <= std::min<std::size_t>(3, cuda::gpus()); ++world) {
                             tested.push_back({"Nccl", world, cuda::make, cuda::on_gpu});
                           }
                           return tested;
                         }()),
                         name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CollectiveConformance);

}  // namespace causeway::intra

namespace causeway::intra::cuda {
namespace {

TEST_F(OverNccl, SumsInAGroupOfOne) {
  const TemporaryDirectory directory;
  const auto group = make({directory.path(), "test", 0, 1});
  std::vector<float> values{1, 2, 3};
  on_gpu(values, [&](std::span<float> there) { group->all_reduce_sum(there); });
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace causeway::intra::cuda
