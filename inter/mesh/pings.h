// The heartbeats of one connection, and how long their answers take. Times are given, no clock is
// read. Internal to inter.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace causeway::inter {

class Pings {
 public:
  using Clock = std::chrono::steady_clock;

  // The number of one that is to be sent now; none: enough are out.
  std::optional<std::uint64_t> next(Clock::time_point now) {
    if (unanswered_.size() >= kUnansweredMax) return std::nullopt;
    unanswered_.emplace_back(++newest_, now);
    return newest_;
  }

  // How long this answer took; none: it is to no ping that is out. Those before it are not waited
  // for any longer.
  std::optional<Clock::duration> take_answer(std::uint64_t number, Clock::time_point now) {
    const auto ping =
        std::ranges::find(unanswered_, number, &std::pair<std::uint64_t, Clock::time_point>::first);
    if (ping == unanswered_.end()) return std::nullopt;
    last_answer_ = now - ping->second;
    unanswered_.erase(unanswered_.begin(), ping + 1);
    return last_answer_;
  }

  // How long an answer is waited for, or how long the last one took.
  Clock::duration answer_delay(Clock::time_point now) const {
    if (unanswered_.empty()) return last_answer_;
    return std::max(now - unanswered_.front().second, last_answer_);
  }

 private:
  static constexpr std::size_t kUnansweredMax = 256;

  std::uint64_t newest_ = 0;
  std::deque<std::pair<std::uint64_t, Clock::time_point>> unanswered_;  // with when they were sent
  Clock::duration last_answer_{0};
};

}  // namespace causeway::inter
