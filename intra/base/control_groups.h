// The kernel's control groups that bound this process: containers, Slurm and systemd make them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace causeway::intra {

struct ControlGroup {
  std::filesystem::path directory;
  bool v2 = true;
};

// This process's own group for `controller` ("memory", "cpu") and those around it, as far as they
// can be seen from here. `root`: under which /proc and /sys are.
std::vector<ControlGroup> control_groups(const std::filesystem::path& root,
                                         const std::string& controller);

// What a file of one number holds: nothing where there is none, or "max".
std::optional<std::uint64_t> number_in(const std::filesystem::path& file);

}  // namespace causeway::intra
