#include "diloco/round/speeds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

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
  // Whatever a region claims.
  constexpr double kMostS = 86'400;
  constexpr double kOfMedian = 16;
  if (steps_per_s_.empty()) return Time{0};
  std::vector<double> took_s;
  for (const auto& [region, steps_per_s] : steps_per_s_) took_s.push_back(steps / steps_per_s);
  std::ranges::sort(took_s);
  const double most_s = std::min({took_s.back(), kOfMedian * took_s[took_s.size() / 2], kMostS});
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(most_s));
}

namespace {

constexpr Time kUnmeasured = std::chrono::seconds{60};

}  // namespace

Grace::Grace(Time min, Time max) : min_(min), max_(std::max(min, max)) {}

Time Grace::length() const {
  if (!measured_) return std::clamp(kUnmeasured, min_, max_);
  const double estimate_us =
      std::min(mean_us_ + 4 * deviation_us_, static_cast<double>(max_.count()));
  return std::clamp(Time{static_cast<Time::rep>(estimate_us)}, min_, max_);
}

void Grace::start_from(Time length) {
  if (measured_) return;
  mean_us_ = static_cast<double>(length.count());
  deviation_us_ = 0;
  measured_ = true;
}

void Grace::add(Time lateness) {
  const auto sample_us = static_cast<double>(lateness.count());
  if (!measured_) {
    mean_us_ = sample_us;
    deviation_us_ = sample_us / 2;
    measured_ = true;
    return;
  }
  deviation_us_ += (std::abs(sample_us - mean_us_) - deviation_us_) / 4;
  mean_us_ += (sample_us - mean_us_) / 8;
}

}  // namespace causeway::diloco
