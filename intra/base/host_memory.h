// What memory this host has for a process: the host's own, less what control groups leave of it
// (containers, Slurm, systemd).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace causeway::intra {

struct HostMemory {
  std::uint64_t total_bytes = 0;      // swap included; 0: nobody says
  std::uint64_t available_bytes = 0;  // of it, without driving others out
  std::string limit;                  // the control group that allows less than the host has
};

// `root`: under which /proc and /sys are.
HostMemory host_memory(const std::filesystem::path& root = "/");

// How many processes the kernel has killed for want of memory, here and in this process's control
// group: whichever it counts. It never falls.
std::uint64_t memory_kills(const std::filesystem::path& root = "/");

// "6,132 MiB", rounded up.
std::string in_mib(std::uint64_t bytes);

}  // namespace causeway::intra
