// Loops over chunks on as many threads as OpenMP is set to (OMP_NUM_THREADS).
#pragma once

#include <cstddef>
#include <limits>

namespace causeway::compression {

inline constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// Calls body(i) for i below count, each thread for a share of its own in ascending order, until it
// gets false. Returns the least i that gave false, whatever the number of threads; kNone if none
// did. The body must not throw.
template <typename Body>
std::size_t first_failure(std::size_t count, const Body& body) {
  constexpr std::size_t kWorthAThread = 8;  // chunks: some 10 us
  std::size_t first = kNone;
#pragma omp parallel for schedule(static) reduction(min : first) if (count >= 2 * kWorthAThread)
  for (std::size_t i = 0; i < count; ++i) {
    if (i < first && !body(i)) first = i;
  }
  return first;
}

}  // namespace causeway::compression
