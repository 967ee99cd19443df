// How long a worker has said nothing while it is to speak. One that waits reports twice a second,
// and one that works after each step; a program of its own only after all steps of a round.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace causeway::diloco {

class WorkerSilence {
 public:
  using Clock = std::chrono::steady_clock;

  // It spoke, or has nothing to say for now. How long it was silent, if that had been noted.
  std::optional<Clock::duration> end() {
    const bool was_noted = is_noted_;
    const Clock::duration lasted = lasts_;
    lasts_ = {};
    looked_at_.reset();
    is_noted_ = false;
    if (!was_noted) return std::nullopt;
    // Its steps may take that long: then they do each time.
    limit_ = std::clamp<Clock::duration>(2 * lasted, kShortest, kLongest);
    return lasted;
  }

  // To be called every second or more often while it is to speak. True: it has been silent for so
  // long that this is to be noted; once for each silence.
  bool look(Clock::time_point now) {
    // Whoever was stopped between two looks did not listen.
    if (looked_at_) lasts_ += std::min<Clock::duration>(now - *looked_at_, kBetweenLooks);
    looked_at_ = now;
    if (is_noted_ || lasts_ < limit_) return false;
    is_noted_ = true;
    return true;
  }

  bool is_noted() const { return is_noted_; }
  Clock::duration lasts() const { return lasts_; }

 private:
  static constexpr std::chrono::seconds kShortest{60}, kBetweenLooks{1};
  static constexpr std::chrono::hours kLongest{1};

  Clock::duration limit_ = kShortest, lasts_{};
  std::optional<Clock::time_point> looked_at_;
  bool is_noted_ = false;
};

}  // namespace causeway::diloco
