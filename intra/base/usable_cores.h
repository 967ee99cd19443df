// How many threads are worth starting here: as many as this process gets cores for.
#pragma once

#include <filesystem>
#include <string>

#include "compression/base/allowed_cores.h"

namespace causeway::intra {

struct UsableCores {
  unsigned count = 1;
  double quota = 0;        // of time, in cores, if it is less than all of them; 0: there is none
  std::string limit = {};  // the control group that has this quota
};

// A quota (docker --cpus, limits.cpu of a pod, CPUQuota= of a unit) leaves all cores in sight, and
// stops whoever has used it up: more threads than it is good for wait for each other in every step.
// `root`: under which /proc and /sys are.
UsableCores usable_cores(const std::filesystem::path& root = "/",
                         unsigned allowed = compression::allowed_core_count());

}  // namespace causeway::intra
