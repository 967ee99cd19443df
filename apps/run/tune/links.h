// The WAN that a tuning is for: a scenario file, or what the coordinators of a recorded run
// measured of their paths.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "inter/route/topology.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::run {

// Throws ConfigError if the file lacks a region.
wan_sim::Scenario links_of_profile(const std::filesystem::path& file,
                                   const std::vector<std::string>& regions);

// What a region's coordinator measured of its link to another one. 0: unknown.
struct MeasuredLink {
  double round_trip_ms = 0, rate_mbit_s = 0;
  double rate_p50_mbit_s = 0, rate_p05_mbit_s = 0;  // below which half and 5 % of its rates lie
};
// By regions/*/status.json of a run directory. A direction in which little was sent is taken to be
// as the other one. Throws ConfigError naming the link that was measured in neither.
std::map<std::pair<std::string, std::string>, MeasuredLink> measured_links(
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

}  // namespace causeway::run
