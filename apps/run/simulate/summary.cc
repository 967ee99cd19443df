#include "apps/run/simulate/summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/run/page/format.h"
#include "apps/run/region/region_files.h"
#include "diloco/maths/layout.h"
#include "intra/model/model.h"
#include "intra/outer/outer_state.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
namespace {

RegionSummary summarize_region(const RegionConfig& region, const std::filesystem::path& directory) {
  const auto result = intra::read_result(directory);
  if (!result)
    throw RunError((directory / "result.json").string() +
                   " is missing or damaged; the logs beside it say why");
  const RegionStatus status = read_status(directory).value_or(RegionStatus{});
  RegionSummary out;
  out.name = region.name;
  out.result = *result;
  out.loss = loss_of(status.progress);
  out.wan_tx_bytes = status.wan_tx_bytes;
  out.wan_rx_bytes = status.wan_rx_bytes;
  if (status.egress) out.egress_cost = status.egress->cost;
  out.workers = region.workers;
  return out;
}

// All ranks of the baseline hold the same parameters; the first region's result speaks for them.
std::optional<double> baseline_loss(const Config& config, const std::filesystem::path& out) {
  const auto result = intra::read_result(out / "baseline" / config.regions.front().name);
  if (!result) return std::nullopt;
  return result->val_loss();
}

bool adopted_snapshot(const std::vector<Event>& events) {
  return std::any_of(events.begin(), events.end(),
                     [](const Event& event) { return event.event == "restore"; });
}

std::uint64_t rounds_applied(const std::vector<Event>& events) {
  std::set<std::uint64_t> rounds;
  for (const Event& event : events) {
    if (event.event == "round") rounds.insert(event.round);
  }
  return rounds.size();
}

bool same_parameters(const std::vector<RegionSummary>& regions) {
  return std::all_of(regions.begin(), regions.end(), [&](const RegionSummary& region) {
    const std::string& digest = region.result.params_digest;
    return !digest.empty() && digest == regions.front().result.params_digest;
  });
}

std::string variant_of(const Config& config) {
  using Variant = diloco::OverlapOptions::Variant;
  switch (config.overlap.variant) {
    case Variant::synchronous:
      return "synchronous";
    case Variant::streaming:
      return fmt::format("streaming (P = {}, tau = {})", config.overlap.fragments,
                         config.sync.overlap_steps);
    case Variant::delayed:
      return "delayed";
    case Variant::eager:
      return "eager";
  }
  return {};
}

double lateness_ms(const wan_sim::Verdict& verdict) {
  return std::chrono::duration<double, std::milli>(verdict.lateness_p99).count();
}

using Json = nlohmann::ordered_json;

// What is not known of a program is left out; of the built-in trainer it is null.
Json to_json(const RegionSummary& region, bool by_program) {
  Json json = intra::to_json(region.result);
  for (const char* of_the_run : {"rounds", "run_steps", "common_val_loss", "timed_steps"})
    json.erase(of_the_run);
  json.update(Json{{"name", region.name},
                   {"rounds_applied", region.rounds_applied},
                   {"loss", region.loss ? Json(*region.loss) : Json(nullptr)},
                   {"wan_tx_bytes", region.wan_tx_bytes},
                   {"wan_rx_bytes", region.wan_rx_bytes},
                   {"utilisation", region.result.utilisation()},
                   {"workers", region.workers}});
  if (by_program && !region.loss) json.erase("loss");
  if (region.egress_cost || !by_program)
    json["egress_cost"] = region.egress_cost ? Json(*region.egress_cost) : Json(nullptr);
  return json;
}

}  // namespace

std::string Summary::k_text() const {
  const std::string start = std::to_string(k);
  return k_at_end == 0 || k_at_end == k ? start : fmt::format("{} to {}", start, k_at_end);
}

std::string Summary::val_loss_text() const {
  return val_loss && std::isfinite(*val_loss) ? format_fixed(*val_loss, 4) : "not a number";
}

std::optional<double> Summary::val_loss_ratio() const {
  if (!val_loss || !baseline_val_loss || *baseline_val_loss <= 0) return std::nullopt;
  const double ratio = *val_loss / *baseline_val_loss;
  return std::isfinite(ratio) ? std::optional(ratio) : std::nullopt;
}

double Summary::wan_ratio() const {
  return wan_bytes == 0 ? 0 : double(wan_bytes_if_synced_every_step) / double(wan_bytes);
}

std::uint32_t Summary::worker_processes() const {
  std::uint32_t total = 0;
  for (const RegionSummary& region : regions) total += region.workers;
  return total;
}

std::optional<double> Summary::mean_loss() const {
  double sum = 0;
  std::size_t known = 0;
  for (const RegionSummary& region : regions) {
    sum += region.loss.value_or(0);
    known += region.loss ? 1 : 0;
  }
  return known == 0 ? std::nullopt : std::optional(sum / double(known));
}

std::uint64_t ring_all_reduce_bytes(std::uint64_t parameters, std::size_t regions,
                                    std::uint64_t steps) {
  if (regions < 2) return 0;
  return 2 * (regions - 1) * 4 * parameters * steps;  // 2(R-1)/R x 4N, of each of R regions
}

bool states_identical(const std::vector<std::vector<Event>>& events_by_region,
                      std::uint64_t rounds) {
  std::map<std::uint64_t, std::string> agreed;
  for (const auto& events : events_by_region) {
    const auto mine = states_by_round(events);
    for (const auto& [round, state] : mine) {
      if (state.empty() || agreed.emplace(round, state).first->second != state) return false;
    }
    // The snapshot may be of the last version.
    if (mine.size() != rounds && !adopted_snapshot(events)) return false;
  }
  return true;
}

namespace {

std::string outer_of(const Config& config) {
  switch (config.outer.kind) {
    case diloco::OuterOptions::Kind::nesterov:
      return "nesterov";
    case diloco::OuterOptions::Kind::sgd:
      return "sgd";
    case diloco::OuterOptions::Kind::delayed_nesterov:
      return fmt::format("delayed nesterov over {} rounds", config.outer.delay);
  }
  return {};
}

// Of a program only its state tells what it trains.
std::uint64_t parameter_count(const Config& config, const std::filesystem::path& out) {
  if (config.built_in_trainer())
    return diloco::Layout(intra::parameter_tensors(config.model)).parameter_count();
  const intra::StateReader state(intra::snapshot_file(out / "regions" / config.sync.founder));
  const auto layout = intra::parse_tensors(state.get("tensors"), state.get("layout"));
  if (!layout) state.refuse("it names other tensors than it holds");
  return layout->parameter_count();
}

std::vector<RegionStatus> statuses_of(const Config& config, const std::filesystem::path& out) {
  std::vector<RegionStatus> statuses;
  for (const RegionConfig& region : config.regions) {
    if (auto status = read_status(out / "regions" / region.name))
      statuses.push_back(*std::move(status));
  }
  return statuses;
}

}  // namespace

Summary summarize(const Config& config, const std::filesystem::path& out,
                  const SimulationFacts& facts) {
  Summary summary;
  summary.name = config.name;
  summary.seed = config.train.seed;
  summary.parameters = parameter_count(config, out);
  summary.k = config.train.k;
  summary.codec = config.codec.matrix;
  summary.outer = outer_of(config);
  summary.variant = variant_of(config);
  summary.steps = config.train.steps;
  summary.facts = facts;
  std::vector<std::vector<Event>> events;
  for (const RegionConfig& region : config.regions) {
    const auto directory = out / "regions" / region.name;
    summary.regions.push_back(summarize_region(region, directory));
    const RegionSummary& made = summary.regions.back();
    summary.wan_bytes += made.wan_tx_bytes;
    if (made.egress_cost) summary.egress_cost = summary.egress_cost.value_or(0) + *made.egress_cost;
    events.push_back(read_events(directory / "events.jsonl"));
    summary.regions.back().rounds_applied = rounds_applied(events.back());
    if (region.name != config.sync.founder) continue;
    summary.val_loss = made.result.val_loss();
    summary.rounds = made.result.progress.round();
    summary.k_at_end = read_status(directory).value_or(RegionStatus{}).k;
    summary.k_changes = k_changes(events.back());
  }
  if (const auto egress = run_egress(statuses_of(config, out))) summary.limits = egress->limits;
  summary.baseline_val_loss = baseline_loss(config, out);
  summary.wan_bytes_if_synced_every_step =
      ring_all_reduce_bytes(summary.parameters, config.regions.size(), config.train.steps);
  summary.same_parameters = same_parameters(summary.regions);
  summary.identical = summary.same_parameters && states_identical(events, summary.rounds);
  summary.timed_steps = config.train.timed_step_ms > 0;
  return summary;
}

std::string to_json(const Summary& summary) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json(nullptr);
  };
  Json regions = Json::array();
  for (const RegionSummary& region : summary.regions)
    regions.push_back(to_json(region, summary.by_program()));
  const auto& wan = summary.facts.wan_verdict;
  Json json = {{"name", summary.name},
               {"seed", summary.seed},
               {"parameters", summary.parameters},
               {"k", summary.k},
               {"k_at_end", summary.k_at_end},
               {"codec", summary.codec},
               {"outer", summary.outer},
               {"variant", summary.variant},
               {"steps", summary.steps},
               {"rounds", summary.rounds},
               {"wall_s", summary.facts.wall_s},
               {"wan", summary.facts.wan},
               {"wan_bytes", summary.wan_bytes},
               {"wan_bytes_if_synced_every_step", summary.wan_bytes_if_synced_every_step},
               {"identical", summary.identical},
               {"restarts", summary.facts.restarts},
               {"cores", summary.facts.cores}};
  if (summary.egress_cost || !summary.by_program())
    json["egress_cost"] = optional(summary.egress_cost);
  if (wan || !summary.by_program()) {
    json["relay_lateness_p99_ms"] = wan ? Json(lateness_ms(*wan)) : Json();
    json["wan_shortfall"] = wan ? Json(wan->shortfall) : Json();
    json["wan_valid"] = wan ? Json(wan->valid()) : Json();
  }
  if (summary.by_program()) {
    json["worker"] = summary.facts.worker;
  } else {
    json["baseline_wall_s"] = summary.facts.baseline_wall_s;
    json["val_loss"] = summary.val_loss.value_or(std::nan(""));
    json["baseline_val_loss"] = optional(summary.baseline_val_loss);
    json["val_loss_ratio"] = optional(summary.val_loss_ratio());
    json["timed_steps"] = summary.timed_steps;
  }
  json["regions"] = std::move(regions);
  return json.dump(2) + "\n";
}

void merge_events(const Config& config, const std::filesystem::path& out) {
  std::map<std::pair<std::uint64_t, std::string>, std::vector<std::string>> lines;
  std::map<std::pair<std::uint64_t, std::string>, std::size_t> rounds;  // where in its lines
  for (const RegionConfig& region : config.regions) {
    for (Event& event : read_events(out / "regions" / region.name / "events.jsonl")) {
      const std::pair key{event.round, region.name};
      std::vector<std::string>& group = lines[key];
      if (event.event == "round") {
        const auto [place, is_first] = rounds.try_emplace(key, group.size());
        if (!is_first) {
          group[place->second] = std::move(event.json);
          continue;
        }
      }
      group.push_back(std::move(event.json));
    }
  }
  for (Restart& restart : read_restarts(out / "restarts.jsonl")) {
    lines[{restart.round, restart.process}].push_back(std::move(restart.json));
  }
  std::string text;
  for (const auto& [_, group] : lines) {
    for (const std::string& line : group) text += line + "\n";
  }
  write_text_file(out / "events.jsonl", text);
}

}  // namespace causeway::run
