#include "intra/base/control_groups.h"

#include <fstream>

namespace causeway::intra {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::uint64_t value = 0;
  if (std::ifstream(file) >> value) return value;
  return std::nullopt;
}

std::vector<ControlGroup> control_groups(const fs::path& root, const std::string& controller) {
  std::vector<ControlGroup> found;
  std::ifstream stream(root / "proc/self/cgroup");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && ("," + controllers + ",").find("," + controller + ",") == std::string::npos)
      continue;
    const fs::path mount = root / (v2 ? "sys/fs/cgroup" : "sys/fs/cgroup/" + controller);
    fs::path own = fs::path(line.substr(second + 1)).relative_path();
    for (; !own.empty(); own = own.parent_path()) found.push_back({mount / own, v2});
    found.push_back({mount, v2});
  }
  return found;
}

}  // namespace causeway::intra
