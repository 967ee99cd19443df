// Whether this host can do what a region asks of it: cores, memory, limits of a process.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "apps/run/config/config.h"
#include "apps/run/doctor/finding.h"
#include "intra/base/host_memory.h"

namespace causeway::run {

// What the kernel and the environment say.
struct HostFigures {
  unsigned cores = 1;        // that this process may use
  double busy_cores = 0;     // of the host's, by whatever ran for a second
  std::string busiest = {};  // the program that had most of it; empty: none stands out
  intra::HostMemory memory = {};
  std::uint64_t open_files_max = 0;  // of a process
  std::uint64_t file_bytes_max = 0;  // of a file that a process writes
  // Of a process, mapped files and libraries included.
  std::uint64_t address_bytes_max = ~std::uint64_t{0};
  bool avx2 = false, bf16 = false, amx = false;
  std::map<std::string, std::string> openmp = {};  // its variables, as they are set
};
// Takes a second.
HostFigures look_at_host();

Findings judge_host(const HostFigures& host, const Config& config, const std::string& region);

}  // namespace causeway::run
