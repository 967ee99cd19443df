#include "diloco/pacing/pace.h"

#include <algorithm>
#include <cmath>

namespace causeway::diloco {

std::uint32_t Pace::round_steps(std::uint64_t step, std::uint32_t k_now) const {
  if (step >= steps) return 0;
  const bool warming_up = warmup_k > 0 && step < warmup_steps;
  const std::uint32_t length =
      std::max(1U, (warming_up ? std::min(warmup_k, k_now) : k_now) / fragments);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, steps - step));
}

Round Pace::rounds() const {
  Round rounds = fragments - 1;
  for (std::uint64_t step = 0; step < steps; step += round_steps(step)) ++rounds;
  return rounds;
}

// One machine computes it, so that all use the same bits.
std::optional<float> momentum_after(std::uint64_t since, std::uint32_t k, float momentum) {
  if (momentum == 0 || since == k || k == 0) return std::nullopt;
  return static_cast<float>(std::pow(momentum, static_cast<double>(since) / k));
}

}  // namespace causeway::diloco
