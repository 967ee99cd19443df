// The grid of a tuning: every choice rehearsed with the real protocol over the virtual WAN.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/config.h"
#include "apps/run/tune_probe.h"
#include "diloco/tuner/recommendation.h"
#include "diloco/tuner/rehearsal.h"
#include "wan-sim/scenario.h"

namespace causeway::run {

struct Grid {
  std::vector<std::uint32_t> ks;
  std::vector<diloco::tuner::Variant> variants;
  std::uint32_t fragments = 0;      // of streaming; 0: from the number of layers
  std::uint32_t overlap_steps = 0;  // of streaming; 0: what hides the exchange, 5 at most
  std::vector<std::optional<inter::Shape>> topologies;  // empty: the configuration's
};

// Money per 10^9 bytes that leave a region for another. Missing pairs cost `otherwise`.
struct Prices {
  std::map<std::pair<std::string, std::string>, double> per_gb;
  double otherwise = 0;
  bool given = false;

  double of(const std::string& from, const std::string& to, double bytes) const;
};
// TOML: default_per_gb = 0.09, and [[price]] tables with from, to and per_gb. Throws ConfigError;
// so does the name of a region that is not among `known`.
Prices load_prices(const std::filesystem::path& file, const std::vector<std::string>& known);

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
  Grid grid;
  Prices prices;
  std::map<std::string, double> step_s;  // of regions that differ from the probe
  double measured_s_min = 0;             // of virtual time per choice
  std::uint32_t rounds = 8;
};

// `progress` is told the share that is done.
Forecast predict(const PredictInput& input, const std::function<void(double)>& progress);

// Powers of two around the optimum of the closed form and around `k`, which is among them.
std::vector<std::uint32_t> k_grid(std::uint32_t k, double step_s, double exchange_s);

// What the exchange of one payload of each region takes over the links, all at once.
double exchange_s(const wan_sim::Scenario& links, const std::vector<std::string>& regions,
                  double payload_bytes);

diloco::ProtocolOptions rehearsed_protocol(const Config& config);
// Settings that rehearsals leave out, as warnings.
std::vector<std::string> not_rehearsed(const Config& config);
std::vector<std::string> names_of(const Config& config);

}  // namespace causeway::run
