// A relay at one instant, and how its HTTP pages say it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "wan-sim/relay/relay.h"

namespace causeway::apps {

// A port that --map opened.
struct WanPort {
  std::string protocol, from, to, listen, target;
};

struct WanFigures {
  std::string name;  // of the scenario
  double t_s = 0;    // since the start
  std::map<wan_sim::Pair, wan_sim::LinkState> links;
  std::map<wan_sim::Pair, wan_sim::DirectedStats> stats;
  wan_sim::Verdict verdict;
  std::vector<WanPort> ports;
};

std::string links_json(const WanFigures& figures);
std::string maps_json(const WanFigures& figures);
std::string verdict_json(const WanFigures& figures);
// Prometheus' text format, version 0.0.4.
std::string metrics_text(const WanFigures& figures);

}  // namespace causeway::apps
