#include "diloco/round/speeds.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace causeway::diloco {

void Speeds::learn(const Contribution& made) {
  constexpr double kNewest = 0.5;
  if (made.steps == 0 || !(made.compute_s > 0)) return;
  const double measured = made.steps / made.compute_s;
  const auto [entry, first] = steps_per_s_.try_emplace(made.region, measured);
  if (!first) entry->second += kNewest * (measured - entry->second);
}

std::uint32_t Speeds::adapted(std::uint32_t k, const std::string& region) const {
  const auto speed = steps_per_s_.find(region);
  if (speed == steps_per_s_.end() || k == 0) return k;
  double fastest = 0;
  for (const auto& [other, steps_per_s] : steps_per_s_) fastest = std::max(fastest, steps_per_s);
  const double share = std::floor(k * speed->second / fastest);
  return static_cast<std::uint32_t>(std::clamp<double>(share, 1, k));
}

Time Speeds::slowest(std::uint32_t steps) const {
  constexpr double kMostS = 86'400;  // whatever a region claims
  double most_s = 0;
  for (const auto& [region, steps_per_s] : steps_per_s_)
    most_s = std::max(most_s, steps / steps_per_s);
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(std::min(most_s, kMostS)));
}

}  // namespace causeway::diloco
