// `causeway simulate`: a whole multi-region run on this host, as the processes that a real one has.
//
//   1. the run directory, its resolved configuration and its certificates
//   2. the WAN: a relay between the coordinators, packets between namespaces, or plain loopback
//   3. per region a coordinator and its workers, supervised until all have ended well
//   4. the fully synchronous baseline, for comparison
//   5. summary, report, and a sample of text
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/run/simulate/wan.h"

namespace causeway::run {

struct SimulateOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;  // as for load_config
  std::filesystem::path out;           // empty: runs/NAME-TIME
  std::filesystem::path program;       // the `causeway` to start; empty: this one
  WanEngine wan = WanEngine::relay;
  bool baseline = true;
  bool resume = false;
  // Command line of the program that trains, for /bin/sh: one process of it for each region. Empty:
  // the built-in trainer, or of a run that is resumed the program that it was begun with.
  std::string worker = {};
  std::uint32_t sample_tokens = 240;  // 0: no sample
};

// Returns the exit code, as README.md lists them. Throws ConfigError for what is wrong before
// anything was started.
int simulate(const SimulateOptions& options);

}  // namespace causeway::run
