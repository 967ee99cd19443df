// How often to try again, and how often to say so. Internal to inter.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace causeway::inter {

// Exponential back-off with jitter: each delay is drawn from the upper half of [0, limit], and the
// limit doubles up to the maximum, so that regions which lost each other at once do not return in
// step.
class Backoff {
 public:
  Backoff(std::chrono::milliseconds min, std::chrono::milliseconds max, std::uint64_t seed)
      : min_(std::max(min, std::chrono::milliseconds(1))),
        max_(std::max(max, min_)),
        limit_(min_),
        random_(seed) {}

  std::chrono::milliseconds next() {
    const auto half = static_cast<std::uint64_t>(limit_.count() / 2);
    const std::chrono::milliseconds delay(limit_.count() -
                                          static_cast<std::int64_t>(random_() % (half + 1)));
    limit_ = std::min(2 * limit_, max_);
    return delay;
  }
  void reset() { limit_ = min_; }

 private:
  std::chrono::milliseconds min_, max_, limit_;
  std::mt19937_64 random_;
};

// Lets a repeated failure into the log the 1st, 2nd, 4th, 8th, ... time.
class LogThrottle {
 public:
  // How often `failure` has happened now if it should be logged, otherwise 0.
  std::uint64_t count(const std::string& failure) {
    if (counts_.size() >= kFailuresMax && !counts_.contains(failure)) {
      counts_.clear();  // strangers choose their addresses, so memory must not grow with them
    }
    const std::uint64_t times = ++counts_[failure];
    return std::has_single_bit(times) ? times : 0;
  }
  void reset() { counts_.clear(); }

 private:
  static constexpr std::size_t kFailuresMax = 256;
  std::map<std::string, std::uint64_t> counts_;
};

// "" the first time, " (seen 4 times)" later.
inline std::string times_seen(std::uint64_t times) {
  return times <= 1 ? "" : " (seen " + std::to_string(times) + " times)";
}

}  // namespace causeway::inter
