#include "intra/base/host_memory.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include "intra/base/control_groups.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

// Of lines "name value" or "name: value kB".
std::map<std::string, std::uint64_t> numbers_in(const fs::path& file) {
  std::map<std::string, std::uint64_t> numbers;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream words(line);
    std::string name, unit;
    std::uint64_t value = 0;
    if (!(words >> name >> value)) continue;
    if (name.back() == ':') name.pop_back();
    numbers[name] = words >> unit && unit == "kB" ? value * 1024 : value;
  }
  return numbers;
}

std::uint64_t or_zero(const std::map<std::string, std::uint64_t>& numbers,
                      const std::string& name) {
  const auto found = numbers.find(name);
  return found == numbers.end() ? 0 : found->second;
}

// What a group has of files can be let go.
std::uint64_t used_bytes(const ControlGroup& group) {
  const auto used =
      number_in(group.directory / (group.v2 ? "memory.current" : "memory.usage_in_bytes"));
  const auto parts = numbers_in(group.directory / "memory.stat");
  const std::uint64_t files = or_zero(parts, group.v2 ? "inactive_file" : "total_inactive_file") +
                              or_zero(parts, group.v2 ? "active_file" : "total_active_file");
  return used.value_or(0) - std::min(files, used.value_or(0));
}

}  // namespace

HostMemory host_memory(const fs::path& root) {
  const auto host = numbers_in(root / "proc/meminfo");
  HostMemory memory{.total_bytes = or_zero(host, "MemTotal") + or_zero(host, "SwapTotal"),
                    .available_bytes = or_zero(host, "MemAvailable") + or_zero(host, "SwapFree"),
                    .limit = {}};
  for (const ControlGroup& group : control_groups(root, "memory")) {
    const auto limit =
        number_in(group.directory / (group.v2 ? "memory.max" : "memory.limit_in_bytes"));
    if (!limit) continue;
    if (*limit < memory.total_bytes) {
      memory.total_bytes = *limit;
      memory.limit = group.directory.string();
    }
    const std::uint64_t left = *limit - std::min(used_bytes(group), *limit);
    memory.available_bytes = std::min(memory.available_bytes, left);
  }
  return memory;
}

std::uint64_t memory_kills(const fs::path& root) {
  std::uint64_t kills = or_zero(numbers_in(root / "proc/vmstat"), "oom_kill");
  for (const ControlGroup& group : control_groups(root, "memory")) {
    const auto events =
        numbers_in(group.directory / (group.v2 ? "memory.events" : "memory.oom_control"));
    kills = std::max(kills, or_zero(events, "oom_kill"));
  }
  return kills;
}

std::string in_mib(std::uint64_t bytes) {
  std::string digits = std::to_string((bytes + (1U << 20) - 1) >> 20);
  for (std::size_t place = digits.size(); place > 3; place -= 3) digits.insert(place - 3, ",");
  return digits + " MiB";
}

}  // namespace causeway::intra
