// Whether a program takes the steps that it is asked for. One that takes none gets the same order
// again at once, so it is asked more and more slowly. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "diloco/maths/train.h"

namespace causeway::intra {

class RefusedOrders {
 public:
  // The program knows that the steps under way are called back: to take none of them is right.
  void call_back() { called_back_ = true; }
  // It gave back an order of this round after so many steps.
  void add(diloco::Round round, std::uint32_t steps) {
    const bool refused = !std::exchange(called_back_, false) && steps == 0;
    const bool again = std::exchange(round_, round) == round;
    in_a_row_ = !refused ? 0 : again ? in_a_row_ + 1 : 1;
  }

  std::uint32_t in_a_row() const { return in_a_row_; }  // of one round
  // Before the next order; none: a single refusal may be chance.
  std::optional<std::chrono::milliseconds> pause() const {
    if (in_a_row_ < 2) return std::nullopt;
    constexpr std::chrono::milliseconds kFirst{100}, kLongest{1'000};
    const std::uint32_t doublings = std::min(in_a_row_ - 2, 4U);
    return std::min(kFirst * (1U << doublings), kLongest);
  }

 private:
  bool called_back_ = false;
  std::uint32_t in_a_row_ = 0;
  std::optional<diloco::Round> round_;  // of the newest order
};

}  // namespace causeway::intra
