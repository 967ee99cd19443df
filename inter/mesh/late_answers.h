// Whether a link answers heartbeats too late to carry control messages, and when it is well enough
// to carry them again. Times are given, no clock is read. Internal to inter.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace causeway::inter {

class LateAnswers {
 public:
  using Clock = std::chrono::steady_clock;

  // `bound`: an answer that takes longer is late.
  explicit LateAnswers(std::chrono::milliseconds bound) : bound_(bound) {}

  // At every heartbeat: how long an answer is waited for, or how long the last one took; and how
  // long those take that come another way. Whoever looks late itself does not know when an answer
  // came.
  void look(Clock::duration delay, Clock::time_point now, Clock::duration other_way = {}) {
    if (now - looked_at_ > bound_) late_since_.reset();
    looked_at_ = now;
    keep(late_since_, delay > bound_, now);
    keep(well_since_, delay < std::max<Clock::duration>(bound_, other_way) / 2, now);
  }
  // Not for a moment: whoever was paused catches up at once.
  bool are_late(Clock::time_point now) const {
    return late_since_ && now - *late_since_ >= kLateFor * bound_;
  }
  bool are_well(Clock::time_point now) const {
    return well_since_ && now - *well_since_ >= patience_;
  }

  // Messages go another way from now on. A link that is late again soon after it was well may be so
  // only because of what it carries: each time it must be well for twice as long.
  void avoid(Clock::time_point now) {
    if (std::exchange(avoided_, true)) return;  // another way instead of one that was lost
    const bool again = patience_.count() > 0 && now - link_since_ < kLongest * bound_;
    patience_ = again ? std::min(2 * patience_, kLongest * bound_) : kShortest * bound_;
    well_since_.reset();
  }
  // The other way was lost, or is left.
  void judge_anew() { late_since_.reset(); }
  // The link is new, or carries messages again.
  void on_new_link(Clock::time_point now) {
    avoided_ = false;
    link_since_ = now;
    late_since_.reset();
    well_since_.reset();
  }

 private:
  static constexpr int kLateFor = 2, kShortest = 5, kLongest = 300;  // bounds

  static void keep(std::optional<Clock::time_point>& since, bool holds, Clock::time_point now) {
    if (!holds) since.reset();
    if (holds && !since) since = now;
  }

  std::chrono::milliseconds bound_;
  std::chrono::milliseconds patience_{0};
  bool avoided_ = false;
  Clock::time_point link_since_{}, looked_at_{};
  std::optional<Clock::time_point> late_since_, well_since_;
};

}  // namespace causeway::inter
