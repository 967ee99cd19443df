// A run that is only asked about: `causeway tune --parameters`. Its model need not fit into this
// machine, and its regions need not be in a file. Nothing of the model's size is allocated: a
// sample of it is encoded and applied, and what that takes is multiplied.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/probe/probe.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::run {

struct Phantom {
  double parameters = 0;          // 0: the run is no phantom
  std::size_t regions = 0;        // 0: those of the configuration, or else all of the links
  double region_bytes_per_s = 0;  // what a region sends, and receives, in all; 0: no limit
  // Of a region's machines together; 0: as measured on this one. fp32 bytes of parameters that they
  // encode, or decode and add; bytes that they hash and write durably.
  double codec_bytes_per_s = 0, disk_bytes_per_s = 0;

  bool asked() const { return parameters > 0; }
};

// With these regions; empty: those of the file. An empty `file` stands for defaults. What the
// configuration says of a model and data is not looked at.
Config config_of_phantom(const std::filesystem::path& file,
                         const std::vector<std::string>& overrides,
                         const std::vector<std::string>& regions);

// The first `count` regions of the links; 0: all. Beyond those there are, further ones stand at the
// same places in turn: eu-west-site2 has the links of eu-west, and to eu-west itself the best link
// of all. Throws ConfigError if more are asked for than a scenario can have, if two would have one
// name, or if the links have events, traces or hosts, which name regions.
wan_sim::Scenario with_regions(const wan_sim::Scenario& links, std::size_t count);

// The file's links between `regions`, as long transfers find them: rate, delay and jitter alone,
// and the rate that all traffic of a region shares. A warning says what was left out.
wan_sim::Scenario links_of_phantom(const std::filesystem::path& file, const Phantom& phantom,
                                   const std::vector<std::string>& regions,
                                   std::vector<std::string>& warnings);

// Payloads by what the codecs make of a sample; times by `phantom`, or else by this machine, which
// a warning says. `options.step_s` is told.
Probe probe_phantom(const Config& config, const Phantom& phantom, const ProbeOptions& options,
                    std::vector<std::string>& warnings);

}  // namespace causeway::run
