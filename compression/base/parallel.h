// Loops over chunks on as many threads as OpenMP is set to (OMP_NUM_THREADS). Where the library is
// built without OpenMP, plain threads do the same: for the Python module, as PyTorch has an OpenMP
// of its own, and two in one process get in each other's way.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <thread>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#else
#include "compression/base/allowed_cores.h"
#endif

namespace causeway::compression {

inline constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
inline constexpr std::size_t kWorthAThread = 8;  // of the usual chunks: some 10 us

#ifdef _OPENMP

inline namespace with_openmp {  // one program has libraries of both kinds

inline std::size_t threads_wanted() {
  return static_cast<std::size_t>(omp_get_max_threads());
}

// Calls body(i) for i below count, each thread for a share of its own in ascending order, until it
// gets false. Returns the least i that gave false, whatever the number of threads; kNone if none
// did. The body must not throw. A thread is worth its start for `worth` of them. A loop in the
// body of another is done by the one thread that comes to it.
template <typename Body>
std::size_t first_failure(std::size_t count, const Body& body, std::size_t worth = kWorthAThread) {
  std::size_t first = kNone;
#pragma omp parallel for schedule(static) reduction(min : first) if (count >= 2 * worth)
  for (std::size_t i = 0; i < count; ++i) {
    if (i < first && !body(i)) first = i;
  }
  return first;
}

}  // namespace with_openmp

#else

inline namespace with_threads {

inline std::atomic<std::size_t> usable_threads = 0;  // 0: nobody said

// A quota of time is good for fewer threads than there are cores. OMP_NUM_THREADS counts more.
inline void use_threads(std::size_t count) {
  usable_threads = count;
}

// As OpenMP counts them, from the same variable.
inline std::size_t threads_wanted() {
  static const std::size_t told = [] {
    const char* text = std::getenv("OMP_NUM_THREADS");
    return static_cast<std::size_t>(text == nullptr ? 0
                                                    : std::max(0L, std::strtol(text, nullptr, 10)));
  }();
  if (told > 0) return told;
  static const std::size_t allowed = allowed_core_count();
  const std::size_t usable = usable_threads;
  return usable > 0 ? usable : allowed;
}

inline thread_local bool within_a_loop = false;

template <typename Body>
std::size_t first_failure(std::size_t count, const Body& body, std::size_t worth = kWorthAThread) {
  const auto first_of = [&body](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (!body(i)) return i;
    }
    return kNone;
  };
  const std::size_t threads =
      within_a_loop ? 1 : std::clamp<std::size_t>(count / worth, 1, threads_wanted());
  if (threads == 1) return first_of(0, count);
  std::vector<std::size_t> firsts(threads, kNone);
  const auto share = [&](std::size_t t) {
    within_a_loop = true;
    firsts[t] = first_of(count * t / threads, count * (t + 1) / threads);
    within_a_loop = false;
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < threads; ++t) others.emplace_back(share, t);
    share(0);
  }
  return *std::min_element(firsts.begin(), firsts.end());
}

}  // namespace with_threads

#endif

}  // namespace causeway::compression
