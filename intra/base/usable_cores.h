// How many threads are worth starting here: as many as this process gets cores for.
#pragma once

#include <filesystem>
#include <string>

namespace causeway::intra {

// That this process may run on (taskset, cpuset, srun --cpu-bind).
unsigned allowed_core_count();

struct UsableCores {
  unsigned count = 1;
  double quota = 0;        // of time, in cores, if it is less than all of them; 0: there is none
  std::string limit = {};  // the control group that has this quota
};

// A quota (docker --cpus, limits.cpu of a pod, CPUQuota= of a unit) leaves all cores in sight, and
// stops whoever has used it up: more threads than it is good for wait for each other in every step.
// `root`: under which /proc and /sys are.
UsableCores usable_cores(const std::filesystem::path& root = "/",
                         unsigned allowed = allowed_core_count());

}  // namespace causeway::intra
