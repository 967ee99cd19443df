// What torchrun, Slurm and Open MPI tell the processes that they start about their place. One
// launch is one region: its processes are the region's workers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace causeway::run {

struct LaunchedRank {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;   // on its host: its device's number
  std::uint32_t local_world = 0;  // of how many there; 0: not known
  // Reached from here by the network on which the ranks meet; empty: all are on this host.
  std::string meeting_host = {};
  // Its parent is the launcher, or the launcher's part on this host, which lives as long as its
  // processes do. Not where a script of the user's may be in between.
  bool is_launchers_child = false;
};

// The value of a variable; nothing if it is not set. std::getenv, or a test's stand-in.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// `launcher`: torchrun, slurm or openmpi; none: there is none; empty: whichever is there. Nothing
// if none is. Throws ConfigError naming the variables if they are incomplete, are no numbers,
// contradict each other, or are not of `workers` processes.
std::optional<LaunchedRank> launched_rank(const Environment& environment,
                                          const std::string& launcher, std::uint32_t workers);

}  // namespace causeway::run
