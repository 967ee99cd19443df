// On which cores a worker runs. On a host with several NUMA nodes memory of another node is slower,
// and so is a GPU or a network interface that hangs at another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace causeway::run {

using Cores = std::vector<unsigned>;  // ascending

// "0-3,8" as the kernel writes it; nothing if it is not that.
std::optional<Cores> parse_cores(const std::string& list);
std::string to_string(const Cores& cores);

// What a worker works with, on its host.
struct WorkerSeat {
  std::uint32_t local_rank = 0, local_world = 1;
  std::string gpu = {};      // its PCI address, "0000:1b:00.0"; empty: none
  std::string network = {};  // interface on which it meets ranks of other hosts; empty: none
};

struct WorkerPlacement {
  Cores cores;       // to bind to; empty: where it may run already
  std::string text;  // for the log: cores, GPU and interface, each with its node
};

// `sys`: /sys, or a test's stand-in. `allowed`: where the process may run. It is bound if the host
// has several nodes, and nobody has kept it from one of them: to the node of its GPU; without one
// to the node that the local ranks take turns in, if each node has one. With `bind` false never.
WorkerPlacement place_worker(const std::filesystem::path& sys, const Cores& allowed,
                             const WorkerSeat& seat, bool bind);

Cores allowed_cores();
// This process, and as many threads of OpenMP as there are cores. Throws std::system_error.
void run_on(const Cores& cores);

}  // namespace causeway::run
