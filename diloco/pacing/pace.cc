#include "diloco/pacing/pace.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace causeway::diloco {

std::uint32_t Pace::round_steps(std::uint64_t step, std::uint32_t k_now) const {
  if (step >= steps) return 0;
  if (!ends.empty())
    return static_cast<std::uint32_t>(*std::ranges::upper_bound(ends, step) - step);
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

std::vector<std::uint64_t> ends_by_rate(std::uint64_t steps, Round rounds,
                                        const std::function<double(std::uint64_t)>& rate) {
  assert(rounds > 0 && rounds <= steps);
  constexpr double kLeast = 0.25;  // of the mean
  std::vector<double> rates(steps);
  for (std::uint64_t step = 0; step < steps; ++step) rates[step] = rate(step);
  const double least =
      kLeast * std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(steps);
  for (double& one : rates) one = std::max(one, least);
  const double share =
      std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rounds);
  std::vector<std::uint64_t> ends;
  double sum = 0;
  for (std::uint64_t step = 0; step < steps; ++step) {
    sum += rates[step];
    const std::uint64_t still = rounds - ends.size(), left = steps - step - 1;
    // Half a step early is as good as half a step late; every later round needs a step.
    const bool due = sum + rates[step] / 2 >= share * static_cast<double>(ends.size() + 1);
    if ((due && still > 1) || left < still) ends.push_back(step + 1);
  }
  return ends;
}

// One machine computes it, so that all use the same bits.
std::optional<float> momentum_after(std::uint64_t since, std::uint32_t k, float momentum) {
  if (momentum == 0 || since == k || k == 0) return std::nullopt;
  return static_cast<float>(std::pow(momentum, static_cast<double>(since) / k));
}

}  // namespace causeway::diloco
