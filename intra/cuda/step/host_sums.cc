#include "intra/cuda/step/host_sums.h"

#include <vector>

#include "intra/collective/forwarding_collective.h"

namespace causeway::intra::cuda {
namespace {

class HostSums final : public ForwardingCollective {
 public:
  HostSums(Collective& hosts, Queue& queue) : ForwardingCollective(hosts), queue_(queue) {}

  void all_reduce_sum(std::span<float> values) override {
    there_and_back(values, [&](std::span<float> here) { group().all_reduce_sum(here); });
  }
  void reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts) override {
    there_and_back(values,
                   [&](std::span<float> here) { group().reduce_scatter_sum(here, counts); });
  }
  void all_gather_parts(std::span<float> values, std::span<const std::size_t> counts) override {
    there_and_back(values, [&](std::span<float> here) { group().all_gather_parts(here, counts); });
  }

 private:
  template <typename Operation>
  void there_and_back(std::span<float> values, const Operation& operation) {
    here_.resize(values.size());
    queue_.download(values.data(), here_.data(), values.size_bytes());
    operation(std::span(here_));
    queue_.upload(here_.data(), values.data(), values.size_bytes());
  }

  Queue& queue_;
  std::vector<float> here_;
};

}  // namespace

std::unique_ptr<Collective> make_host_sums(Collective& hosts, Queue& queue) {
  return std::make_unique<HostSums>(hosts, queue);
}

}  // namespace causeway::intra::cuda
