#include "intra/base/usable_cores.h"

#include <cmath>
#include <fstream>
#include <optional>

#include "intra/base/control_groups.h"

namespace causeway::intra {
namespace {

// In cores. Without one the first version says -1, and the second "max".
std::optional<double> quota_of(const ControlGroup& group) {
  double time = 0, period = 0;
  if (group.v2) {
    std::ifstream(group.directory / "cpu.max") >> time >> period;
  } else {
    std::ifstream(group.directory / "cpu.cfs_quota_us") >> time;
    std::ifstream(group.directory / "cpu.cfs_period_us") >> period;
  }
  if (time <= 0 || period <= 0) return std::nullopt;
  return time / period;
}

}  // namespace

UsableCores usable_cores(const std::filesystem::path& root, unsigned allowed) {
  UsableCores cores{.count = allowed};
  double least = allowed;
  for (const ControlGroup& group : control_groups(root, "cpu")) {
    const std::optional<double> quota = quota_of(group);
    if (!quota || *quota >= least) continue;
    least = cores.quota = *quota;
    cores.limit = group.directory.string();
    cores.count = static_cast<unsigned>(std::ceil(least));  // half a core is worth a thread
  }
  return cores;
}

}  // namespace causeway::intra
