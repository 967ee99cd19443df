#include "intra/cuda/host_sums.h"

#include <vector>

namespace causeway::intra::cuda {
namespace {

class HostSums final : public Collective {
 public:
  HostSums(Collective& hosts, Backend& backend) : hosts_(hosts), backend_(backend) {}

  std::size_t rank() const override { return hosts_.rank(); }
  std::size_t size() const override { return hosts_.size(); }

  void all_reduce_sum(std::span<float> values) override {
    there_and_back(values, [&](std::span<float> here) { hosts_.all_reduce_sum(here); });
  }
  void reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts) override {
    there_and_back(values, [&](std::span<float> here) { hosts_.reduce_scatter_sum(here, counts); });
  }
  void all_gather_parts(std::span<float> values, std::span<const std::size_t> counts) override {
    there_and_back(values, [&](std::span<float> here) { hosts_.all_gather_parts(here, counts); });
  }

  void broadcast(std::span<std::byte> bytes, std::size_t root) override {
    hosts_.broadcast(bytes, root);
  }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    return hosts_.all_gather(mine);
  }
  void barrier() override { hosts_.barrier(); }

 private:
  template <typename Operation>
  void there_and_back(std::span<float> values, const Operation& operation) {
    here_.resize(values.size());
    backend_.download(values.data(), here_.data(), values.size_bytes());
    operation(std::span(here_));
    backend_.upload(here_.data(), values.data(), values.size_bytes());
  }

  Collective& hosts_;
  Backend& backend_;
  std::vector<float> here_;
};

}  // namespace

std::unique_ptr<Collective> make_host_sums(Collective& hosts, Backend& backend) {
  return std::make_unique<HostSums>(hosts, backend);
}

}  // namespace causeway::intra::cuda
