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

// Where a worker's time went.
struct TimeSpent {
  double compute_s = 0, wait_s = 0;     // in inner steps, and in all else
  double in_region_s = 0, outer_s = 0;  // of the two, as in diloco::Progress
};

}  // namespace causeway::intra
