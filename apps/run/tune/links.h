// The WAN that a tuning is for: a scenario file, or what the coordinators of a recorded run
// measured of their paths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/region/region_files.h"
#include "inter/route/topology.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::run {

// Throws ConfigError if the file lacks a region.
wan_sim::Scenario links_of_profile(const std::filesystem::path& file,
                                   const std::vector<std::string>& regions);

// What a region's coordinator measured of its link to another one, by both; rates of 0: unknown.
// By regions/*/status.json of a run directory. A direction in which little was sent is taken to be
// as the other one. Throws ConfigError naming the link that was measured in neither.
std::map<std::pair<std::string, std::string>, LinkStatus> measured_links(
    const std::filesystem::path& run, const std::vector<std::string>& regions);

// Of measured_links().
wan_sim::Scenario links_of_run(const std::filesystem::path& run,
                               const std::vector<std::string>& regions);
// The same as a scenario file's text.
std::string links_text_of_run(const std::filesystem::path& run,
                              const std::vector<std::string>& regions);

// alpha and beta of every directed link.
inter::LinkMatrix link_matrix(const wan_sim::Scenario& scenario,
                              const std::vector<std::string>& regions);

// One step's all-reduce of fp32 gradients in a ring over the regions, in the best order: what fully
// synchronous training waits for every step.
struct Ring {
  std::vector<std::string> order;  // each sends to the next, the last to the first
  double seconds = 0;              // 0 for one region
  double bytes_per_hop = 0;        // that every region sends
};
Ring ring_all_reduce(const inter::LinkMatrix& links, const std::vector<std::string>& regions,
                     double gradient_bytes);

// What the directed links between the regions are measured to do: alpha, beta, and how long
// transfers of a payload take, each alone on its link. (`causeway tune`, step 1)

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
