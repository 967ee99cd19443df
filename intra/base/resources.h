// What work takes: time and memory.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>

namespace causeway::intra {

// How much memory this process needed at most, so far.
inline std::uint64_t memory_peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

template <typename Work>
double seconds_of(const Work& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// Charges all time since start() to one account or another.
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
