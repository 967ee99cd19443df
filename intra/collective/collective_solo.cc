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
  const auto own = values.subspan(begin_of_part(counts, rank()), counts[rank()]);
  const auto gathered = all_gather(std::as_bytes(own));
  for (std::size_t part = 0; part < counts.size(); ++part) {
    assert(gathered[part].size() == counts[part] * sizeof(float));
    if (counts[part] > 0) {
      std::memcpy(&values[begin_of_part(counts, part)], gathered[part].data(),
                  gathered[part].size());
    }
  }
}

void Collective::exchange_parts(std::span<const float> values, std::span<const std::size_t> counts,
                                std::span<float> received) {
  const std::size_t begin = begin_of_part(counts, rank()), own = counts[rank()];
  assert(counts.size() == size() && received.size() == size() * own);
  const auto gathered = all_gather(std::as_bytes(values));
  for (std::size_t other = 0; other < size() && own > 0; ++other) {
    assert(gathered[other].size() == values.size_bytes());
    std::memcpy(&received[other * own], gathered[other].data() + begin * sizeof(float),
                own * sizeof(float));
  }
}

std::vector<std::size_t> even_parts(std::size_t elements, std::size_t ranks) {
  constexpr std::size_t kUnit = 16;
  const std::size_t units = elements / kUnit;
  std::vector<std::size_t> counts(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    counts[rank] = (units * (rank + 1) / ranks - units * rank / ranks) * kUnit;
  counts.back() += elements - units * kUnit;
  return counts;
}

std::size_t begin_of_part(std::span<const std::size_t> counts, std::size_t index) {
  return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(index),
                         std::size_t{0});
}

std::uint64_t lowest_of_ranks(Collective& collective, std::uint64_t own) {
  std::uint64_t lowest = own;
  for (const auto& bytes : collective.all_gather(std::as_bytes(std::span(&own, 1)))) {
    std::uint64_t other = 0;
    assert(bytes.size() == sizeof other);
    std::memcpy(&other, bytes.data(), sizeof other);
    lowest = std::min(lowest, other);
  }
  return lowest;
}

std::unique_ptr<Collective> make_solo_collective() {
  return std::make_unique<SoloCollective>();
}

}  // namespace causeway::intra
