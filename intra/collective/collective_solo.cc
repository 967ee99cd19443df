// The group of one, and what is the same for all groups.
#include <cassert>
#include <cstring>
#include <numeric>

#include "intra/collective/collective.h"

namespace causeway::intra {
namespace {

class SoloCollective final : public Collective {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 1; }
  void all_reduce_sum(std::span<float>) override {}
  void broadcast(std::span<std::byte>, std::size_t root) override { assert(root == 0); }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine) override {
    return {{mine.begin(), mine.end()}};
  }
  void barrier() override {}
};

}  // namespace

void Collective::reduce_scatter_sum(std::span<float> values, std::span<const std::size_t> counts) {
  assert(counts.size() == size() &&
         std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == values.size());
  all_reduce_sum(values);
}

void Collective::all_gather_parts(std::span<float> values, std::span<const std::size_t> counts) {
  assert(counts.size() == size());
  if (size() == 1) return;
  const auto begin = [&](std::size_t part) {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(part),
                           std::size_t{0});
  };
  const auto gathered = all_gather(std::as_bytes(values.subspan(begin(rank()), counts[rank()])));
  for (std::size_t part = 0; part < counts.size(); ++part) {
    assert(gathered[part].size() == counts[part] * sizeof(float));
    if (counts[part] > 0)
      std::memcpy(&values[begin(part)], gathered[part].data(), gathered[part].size());
  }
}

std::unique_ptr<Collective> make_solo_collective() {
  return std::make_unique<SoloCollective>();
}

}  // namespace causeway::intra
