#include "intra/outer/senders.h"

#include <algorithm>

namespace causeway::intra {

std::vector<float> factors_by_senders(std::span<const Sender> senders, std::size_t index,
                                      std::size_t count) {
  const auto holds_all = [&](const Sender& one) { return !one.payload->is_sparse(index); };
  if (std::ranges::all_of(senders, holds_all)) return {};
  std::vector<float> factors(count, 0.0F);  // the weight of those that hold each element, at first
  float all = 0, largest = 0;
  for (const Sender& one : senders) {
    one.payload->add_weight(index, one.weight, factors);
    all += one.weight;
    largest = std::max(largest, one.weight);
  }
  if (largest == 0) return {};  // a sum of zeros
  for (float& factor : factors) factor = all / std::max(factor, largest);
  return factors;
}

}  // namespace causeway::intra
