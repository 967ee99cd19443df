// Choices rehearsed with the real protocol over the virtual WAN.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/config/prices.h"
#include "apps/run/probe/probe.h"
#include "diloco/pacing/recommendation.h"
#include "diloco/rehearsal/rehearsal.h"
#include "inter/route/topology.h"
#include "wan-sim/scenario/scenario.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::run {

struct Forecast {
  double seconds = 0;             // one direct exchange of the configuration's own codec
  double synchronous_step_s = 0;  // a fully synchronous step: compute and ring all-reduce
  double synchronous_cost = 0;    // of its traffic
  std::string topology;           // what suits the links best, by alpha and beta alone
  double topology_gain_s = 0;     // what it would save of an exchange
  std::vector<diloco::tuner::Row> rows;
};

struct PredictInput {
  const Config& config;
  const Probe& probe;
  const wan_sim::Scenario& links;
  Prices prices;
  std::map<std::string, double> step_s;  // of regions that differ from the probe
  double measured_s_min = 0;             // of virtual time per choice
  std::uint32_t rounds = 8;              // at least
};
// Of all regions: what a round in lockstep waits for.
double slowest_step_s(const PredictInput& input);

// `choices`: of codecs that were probed.
Forecast predict(const PredictInput& input, std::vector<diloco::tuner::Row> choices);

// What the exchange of one payload of each region takes over the links, all at once.
double exchange_s(const wan_sim::Scenario& links, const std::vector<std::string>& regions,
                  double payload_bytes);

diloco::ProtocolOptions rehearsed_protocol(const Config& config);
// Settings that rehearsals leave out, as warnings.
std::vector<std::string> not_rehearsed(const Config& config);

// The world of a rehearsal (diloco/rehearsal/rehearsal.h) over the simulated WAN's virtual engine.

// What the timeline asks of processes is left out: nobody is killed in a rehearsal.
wan_sim::Scenario without_processes(wan_sim::Scenario scenario);

// The fluid mode, or chunks where the scenario has what only those can honour, such as congestion
// control.
wan_sim::VirtualMode mode_for(const wan_sim::Scenario& scenario);

// Without processes, and in that mode. `topology`: as links.topology.
std::unique_ptr<diloco::tuner::World> make_virtual_world(const wan_sim::Scenario& scenario,
                                                         std::optional<inter::Shape> topology = {});

}  // namespace causeway::run
