// What the host has to do beside the next inner step, where that hinders the step least: a device
// computes the step meanwhile; on a CPU one comes after the other.
#pragma once

#include <functional>
#include <utility>

#include "intra/base/resources.h"

namespace causeway::intra {

class HostWork {
 public:
  // Takes the place of what waits.
  void put(std::function<void()> work) { work_ = std::move(work); }
  void drop() { work_ = {}; }
  bool waits() const { return static_cast<bool>(work_); }

  // Of whoever takes the step: does the work, once, even if it throws. Returns the seconds that
  // took; 0 if there is none.
  double run() {
    if (!work_) return 0;
    return seconds_of(std::exchange(work_, {}));
  }
  // By so much the work made its step longer.
  void held_up(double seconds) { held_up_s_ += seconds; }

  // By how much steps were made longer since this was last asked.
  double take_held_up_s() { return std::exchange(held_up_s_, 0); }

 private:
  std::function<void()> work_;
  double held_up_s_ = 0;
};

}  // namespace causeway::intra
