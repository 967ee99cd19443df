// `causeway tune`: which K, and why.
//
//   probe      what a region's machine does (probe.h) and what the links carry (links.h)
//   predict    every choice rehearsed with the real protocol over the virtual WAN (predict.h)
//   calibrate  short paired trials: what K, inner optimizer and codec cost in steps (calibration.h)
//   measure    a few timed rounds of the best choices on real processes, to hold against it
//   recommend  an interval, one value, and what it costs and saves (diloco/pacing)
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/probe/probe.h"
#include "apps/run/tune/calibration.h"
#include "apps/run/tune/grid.h"
#include "apps/run/tune/links.h"
#include "apps/run/tune/phantom.h"
#include "apps/run/tune/predict.h"

namespace causeway::run {

struct TuneOptions {
  std::filesystem::path config;  // empty only for a phantom
  std::vector<std::string> overrides;
  std::filesystem::path links;      // a scenario; empty: wan.profile
  std::filesystem::path links_run;  // instead: a run directory, whose coordinators measured them
  std::filesystem::path prices;     // empty: none
  Phantom phantom;                  // asked: nothing is trained, and no model is held
  Grid grid;                        // empty lists: chosen
  std::vector<std::string> codecs;  // for matrices; empty: the configuration's and three others
  double probe_s = 5;
  double step_s = 0;                       // above 0: not probed
  std::vector<std::string> region_step_s;  // "NAME=MS"
  double rehearse_s = 0;                   // virtual time per choice, at least
  std::uint32_t rounds = 8;                // per choice, at least
  double calibrate_s = 0;                  // budget for real runs
  double measure_s = 0;                    // the same, for timed rounds on this host
  bool measure_all = false;                // all rows, whatever it takes
  std::filesystem::path cache = "runs/calibration";
  std::filesystem::path work;     // where real runs are made; empty: a directory in cache
  std::filesystem::path program;  // the `causeway` to start; empty: this one
  std::string worker;             // command of the user's program; empty: the built-in trainer
};

struct Tuning {
  std::string name;
  std::string links;  // where they come from
  std::vector<std::string> regions;
  bool by_program = false;  // trained by the user's own: nobody else can calibrate or time it
  bool recorded = false;    // a plan: the times of steps are those of a recorded run
  std::uint64_t steps = 0;  // of the configuration: what its target loss needs at K0
  Recipe configured;
  diloco::tuner::Variant configured_variant =
      diloco::tuner::Variant::synchronous;                     // calibrations are made with it
  diloco::ExchangeKind exchange = diloco::ExchangeKind::full;  // as configured
  Probe probe;
  std::vector<LinkProbe> link_probes;
  Forecast forecast;
  diloco::tuner::StatisticalPrice price;
  Calibration calibration;
  Prices prices;
  bool fitted_to_recording = false;  // predicted round times are, at the recorded choice
  std::optional<diloco::tuner::Recommendation> recommendation;
  std::string confidence;             // low, medium or high
  std::vector<std::string> reasons;   // for that
  std::vector<std::string> warnings;  // what is not known, not tried, or outside of what is
  std::vector<std::string> settings;  // of the recommendation: "key = value", where they change

  const diloco::tuner::Row& recommended() const {
    return forecast.rows.at(recommendation.value().row);
  }
  // Of training that synchronises every step, to the same loss.
  double synchronous_steps() const { return double(steps) * price.lockstep_factor; }
  double synchronous_time_s() const { return synchronous_steps() * forecast.synchronous_step_s; }
  double synchronous_cost() const { return synchronous_steps() * forecast.synchronous_cost; }
};

// `note` is told what is being done. Throws ConfigError for what is impossible.
Tuning tune(const TuneOptions& options, const std::function<void(const std::string&)>& note);

// How much to believe, from what was measured and what was not: fills in confidence, reasons and
// warnings.
void judge(Tuning& tuning);

// report.cc, report_html.cc
std::string tuning_json(const Tuning& tuning);
std::string tuning_text(const Tuning& tuning);
std::string tuning_html(const Tuning& tuning);
std::string describe(const diloco::tuner::Overlap& overlap);             // "streaming P=4 tau=2"
std::string describe(const diloco::tuner::Row& row);                     // all but K
std::string topology_name(const std::optional<inter::Shape>& topology);  // as links.topology
std::string describe_exchange(diloco::ExchangeKind exchange);            // ", sharded"
std::string exchange_name(diloco::ExchangeKind exchange);                // as sync.exchange

}  // namespace causeway::run
