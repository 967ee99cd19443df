// Splitting a loop over the OpenMP threads, and not splitting it when it is too short to pay.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace causeway::intra {

// Threads that parallel_for may use: OMP_NUM_THREADS, or one inside another parallel region.
inline int thread_count() {
  return omp_in_parallel() != 0 ? 1 : omp_get_max_threads();
}

// oneDNN 2.6 divides its work by the threads that it asks for and does not notice when the runtime
// grants fewer (OMP_THREAD_LIMIT, OMP_DYNAMIC): its results are wrong then. So no more are asked
// for than are granted.
inline void ask_only_for_threads_that_are_granted() {
  omp_set_dynamic(0);
  omp_set_num_threads(std::min(omp_get_max_threads(), omp_get_thread_limit()));
}

// Calls body(begin, end, slot) on disjoint ranges that cover [0, count), each but the last a
// multiple of `unit`. Slots count from 0 and stay below thread_count(). At most one thread per
// `grain` items: a parallel region costs some microseconds.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, std::int64_t unit, Body&& body) {
  const auto wanted = std::min<std::int64_t>(thread_count(), (count + grain - 1) / grain);
  if (wanted <= 1) {
    if (count > 0) body(std::int64_t{0}, count, 0);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(wanted))
  {
    // The runtime may grant fewer threads than were asked for.
    const std::int64_t threads = omp_get_num_threads();
    const std::int64_t slot = omp_get_thread_num();
    const std::int64_t units = (count + unit - 1) / unit;
    const auto begin = std::min(count, units * slot / threads * unit);
    const auto end = std::min(count, units * (slot + 1) / threads * unit);
    if (begin < end) body(begin, end, static_cast<int>(slot));
  }
}

}  // namespace causeway::intra
