// Which of many clocks is due first: a tournament tree. Ties go to the lower number. Internal.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "wan-sim/base/time.h"

namespace causeway::wan_sim {

class Earliest {
 public:
  explicit Earliest(std::size_t count)
      : leaves_(std::bit_ceil(std::max<std::size_t>(count, 1))),
        times_(leaves_, kNever),
        winners_(2 * leaves_) {
    for (std::size_t i = 0; i < leaves_; ++i) winners_[leaves_ + i] = static_cast<std::uint32_t>(i);
    for (std::size_t node = leaves_ - 1; node > 0; --node) play(node);
  }

  void set(std::uint32_t number, Time time) {
    times_[number] = time;
    for (std::size_t node = (leaves_ + number) / 2; node > 0; node /= 2) play(node);
  }
  std::uint32_t first() const { return leaves_ == 1 ? 0 : winners_[1]; }
  Time first_time() const { return times_[first()]; }

 private:
  void play(std::size_t node) {
    const std::uint32_t left = winners_[2 * node], right = winners_[2 * node + 1];
    winners_[node] = times_[right] < times_[left] ? right : left;
  }

  std::size_t leaves_;
  std::vector<Time> times_;
  std::vector<std::uint32_t> winners_;
};

}  // namespace causeway::wan_sim
