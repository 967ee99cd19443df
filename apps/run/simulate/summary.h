// What a run achieved: summary.json, the data behind the closing table and the report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/region/region_files.h"
#include "apps/run/report/region_history.h"
#include "intra/worker/worker_result.h"
#include "wan-sim/base/verdict.h"

namespace causeway::run {

struct RegionSummary {
  std::string name;
  intra::WorkerResult result;
  std::uint64_t rounds_applied = 0;  // fewer than the run's if it adopted a snapshot
  std::optional<double> loss = {};   // of the last inner step
  std::uint64_t wan_tx_bytes = 0, wan_rx_bytes = 0;
  std::optional<double> egress_cost;  // none: no prices are known
  std::uint32_t workers = 1;
};

// What only the simulation knows.
struct SimulationFacts {
  double wall_s = 0, baseline_wall_s = 0;
  std::uint32_t restarts = 0;
  unsigned cores = 1;
  std::string wan;                                             // profile, or "none"
  std::optional<wan_sim::Verdict> wan_verdict = std::nullopt;  // none: nothing was delayed
  std::string worker = {};  // command of the program that trained; empty: the built-in trainer
};

struct Summary {
  std::string name;
  std::uint64_t seed = 0;
  std::uint64_t parameters = 0;
  std::uint64_t k = 0, k_at_end = 0;  // these differ if K was chosen while the run went on
  std::string codec, outer;
  std::string variant;  // how the exchange overlaps with training, with its numbers
  std::uint64_t steps = 0, rounds = 0;
  std::optional<double> val_loss;  // nats per token; none: a program trained
  std::optional<double> baseline_val_loss;
  std::uint64_t wan_bytes = 0, wan_bytes_if_synced_every_step = 0;
  std::optional<double> egress_cost;
  std::vector<EgressLimit> limits;  // budget.*, as the region says that has seen most
  std::vector<KChange> k_changes;
  bool same_parameters = false;  // at the end
  bool identical = false;        // and same state after every round
  bool timed_steps = false;
  SimulationFacts facts;
  std::vector<RegionSummary> regions;

  std::string k_text() const;
  std::string val_loss_text() const;
  std::optional<double> val_loss_ratio() const;  // to the baseline's; none: one is not a number
  double wan_ratio() const;  // how many times fewer bytes; 0 if nothing was sent
  std::uint32_t worker_processes() const;
  bool by_program() const { return !facts.worker.empty(); }
  std::optional<double> mean_loss() const;  // of the regions' last steps, as far as known
};

// fp32 ring all-reduce among R regions: each sends 2(R-1)/R x 4N bytes per step.
std::uint64_t ring_all_reduce_bytes(std::uint64_t parameters, std::size_t regions,
                                    std::uint64_t steps);

// True if all regions had the same state after every round that they applied, the last time that
// they did. Each must have applied the last one, and all others but those that it skipped by
// adopting a snapshot (whose digest is checked when it is adopted).
bool states_identical(const std::vector<std::vector<Event>>& events_by_region,
                      std::uint64_t rounds);

// Reads out/regions/*/ and out/baseline/*/. Throws RunError naming the file that is
// missing.
Summary summarize(const Config& config, const std::filesystem::path& out,
                  const SimulationFacts& facts);

std::string to_json(const Summary& summary);

// out/regions/*/events.jsonl and restarts.jsonl as one file, ordered by round and region; a round
// that was applied again once, as it was the last time.
void merge_events(const Config& config, const std::filesystem::path& out);

}  // namespace causeway::run
