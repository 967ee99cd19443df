// What the directed links between the regions are measured to do: alpha, beta, and how long
// transfers of a payload take, each alone on its link. (`causeway tune`, step 1)
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "wan-sim/scenario/scenario.h"

namespace causeway::run {

struct LinkProbe {
  std::string from, to;
  std::uint64_t payload_bytes = 0;
  // A transfer of n bytes takes about alpha + n x beta. Nothing: none arrived.
  std::optional<double> alpha_s = {}, beta_s_per_byte = {};
  std::optional<double> p50_s = {}, p95_s = {};  // of transfers of the payload. Nothing: not known
};

// By transfers over the scenario's virtual WAN, one at a time over one connection, of a quarter of
// the payload, of all of it (taken for 16 kB to 8 MB) and of 16 MB. Its timeline runs meanwhile,
// but for what that asks of processes.
std::vector<LinkProbe> probe_links(const wan_sim::Scenario& links,
                                   const std::vector<std::string>& regions,
                                   std::uint64_t payload_bytes);

// From what the coordinators of a run measured. Throws as links_of_run does.
std::vector<LinkProbe> probed_links_of_run(const std::filesystem::path& run,
                                           const std::vector<std::string>& regions,
                                           std::uint64_t payload_bytes);

}  // namespace causeway::run
