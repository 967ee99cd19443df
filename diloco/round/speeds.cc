#include "diloco/round/speeds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace causeway::diloco {

namespace {

constexpr double kOfMedian = 16;

}  // namespace

void Speeds::learn(const Contribution& made) {
  constexpr double kNewest = 0.5;
  constexpr double kMostStepsPerS = 1e7;
  const double measured = made.steps / made.compute_s;
  const bool plausible = measured > 0 && measured <= kMostStepsPerS;
  if (!plausible) return;
  const auto [entry, first] = steps_per_s_.try_emplace(made.region, measured);
  if (!first) entry->second += kNewest * (measured - entry->second);
}

std::uint32_t Speeds::adapted(std::uint32_t k, const std::string& region) const {
  const auto speed = steps_per_s_.find(region);
  if (speed == steps_per_s_.end() || k == 0) return k;
  std::vector<double> speeds;
  for (const auto& [other, steps_per_s] : steps_per_s_) speeds.push_back(steps_per_s);
  std::ranges::sort(speeds);
  const double fastest = std::min(speeds.back(), kOfMedian * speeds[speeds.size() / 2]);
  const double share = std::floor(k * speed->second / fastest);
  return static_cast<std::uint32_t>(std::clamp<double>(share, 1, k));
}

Time Speeds::slowest(std::uint32_t steps) const {
  // Whatever a region claims.
  constexpr double kMostS = 86'400;
  if (steps_per_s_.empty()) return Time{0};
  std::vector<double> took_s;
  for (const auto& [region, steps_per_s] : steps_per_s_) took_s.push_back(steps / steps_per_s);
  std::ranges::sort(took_s);
  const double most_s = std::min({took_s.back(), kOfMedian * took_s[took_s.size() / 2], kMostS});
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(most_s));
}

}  // namespace causeway::diloco
