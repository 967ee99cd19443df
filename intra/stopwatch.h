// Charges all time since start() to one account or another.
#pragma once

#include <chrono>

namespace causeway::intra {

class Stopwatch {
 public:
  // Time begins to count; later calls change nothing.
  void start() {
    if (!started_) last_ = Clock::now();
    started_ = true;
  }

  // Adds the time since the last charge to `account_s`, and returns it.
  double charge(double& account_s) {
    if (!started_) return 0;
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    account_s += seconds;
    return seconds;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_{};
  bool started_ = false;
};

}  // namespace causeway::intra
