// How many cores this thread, and what it starts, may run on: as taskset, cpusets of containers and
// launchers say. std::thread::hardware_concurrency() counts all of the host.
#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

namespace causeway::compression {

inline unsigned allowed_core_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0)
    return std::max(1U, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace causeway::compression
