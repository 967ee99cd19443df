// How late things happened: a histogram whose size does not grow with what it has seen.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>

namespace causeway::wan_sim {

class Lateness {
 public:
  void add(std::chrono::nanoseconds late);  // negative counts as 0
  // The smallest bucket bound that `fraction` of the samples do not exceed; at most 9 % above the
  // true value. 0 without samples.
  std::chrono::microseconds quantile(double fraction) const;
  std::uint64_t count() const { return total_; }

 private:
  static constexpr int kPerOctave = 8;
  static constexpr int kBuckets = 27 * kPerOctave;  // 1 us to over a minute
  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t total_ = 0;
};

}  // namespace causeway::wan_sim
