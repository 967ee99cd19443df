// A running WAN at one instant, and how its HTTP pages say it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "wan-sim/live/live_wan.h"
#include "wan-sim/packet/packet_capture.h"

namespace causeway::apps {

// A port that --map opened; the relay has such.
struct WanPort {
  std::string protocol, from, to, listen, target;
  wan_sim::Pair pair;  // of the regions
};

// How programs get into a region; the packet engine has such. Empty: they run anywhere.
struct WanRegion {
  std::string name, address, enter;
};

struct WanFigures {
  std::string name;  // of the scenario
  double t_s = 0;    // since the start
  std::map<wan_sim::Pair, wan_sim::LinkState> links;
  std::map<wan_sim::Pair, wan_sim::DirectedStats> stats;
  wan_sim::Verdict verdict;
  std::vector<WanPort> ports;
  std::vector<WanRegion> regions;
  std::optional<wan_sim::CaptureState> capture;
};

std::string links_json(const WanFigures& figures);
std::string maps_json(const WanFigures& figures);
std::string regions_json(const WanFigures& figures);
std::string capture_json(const WanFigures& figures);
std::string verdict_json(const WanFigures& figures);
// Prometheus' text format, version 0.0.4.
std::string metrics_text(const WanFigures& figures);

}  // namespace causeway::apps
