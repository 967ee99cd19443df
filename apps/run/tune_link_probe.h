// What the directed links between the regions are measured to do: alpha, beta, and how far single
// transfers stray from alpha + beta x bytes. (`causeway tune`, step 1)
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "diloco/tuner/link_fit.h"
#include "wan-sim/scenario.h"

namespace causeway::run {

struct LinkProbe {
  std::string from, to;
  diloco::tuner::LinkFit fit;
};

// By transfers over the scenario's virtual WAN, one at a time, of a sixteenth to four times
// `payload_bytes` (of 64 MB at most) over `connections`. Its timeline runs meanwhile.
std::vector<LinkProbe> probe_links(const wan_sim::Scenario& links,
                                   const std::vector<std::string>& regions,
                                   std::uint64_t payload_bytes, std::uint32_t connections);

// As the coordinators of a run measured them. Throws as links_of_run does.
std::vector<LinkProbe> probed_links_of_run(const std::filesystem::path& run,
                                           const std::vector<std::string>& regions);

}  // namespace causeway::run
