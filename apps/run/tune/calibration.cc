#include "apps/run/tune/calibration.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <sstream>
#include <system_error>
#include <tuple>

#include <nlohmann/json.hpp>

#include "apps/run/page/format.h"
#include "apps/run/region/region_files.h"
#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "intra/data/data_reading.h"

namespace causeway::run {
namespace {

constexpr double kUnitsMin = 2;  // of 8K steps in a run: four rounds with 4K
constexpr std::size_t kTriplesWanted = 3;
// What a run takes besides its steps, on a host where all regions are close: starting and ending
// it, and every exchange.
constexpr double kStartS = 5, kRoundS = 0.1;
// A triple takes T + T + T/2 steps, and its first run T more to synchronise every step.
constexpr double kStepsPerTriple = 3.5;

struct LossKey {
  std::uint32_t k = 0;
  std::uint64_t steps = 0, seed = 0;
  auto operator<=>(const LossKey&) const = default;

  // Of the run that synchronises every step.
  LossKey lockstep() const { return {0, steps, seed}; }
};
using KnownLosses = std::map<LossKey, double>;

// That calibrations choose themselves; sync.k and its limits: K is fixed in them.
bool is_own_setting(const std::string& line) {
  for (const char* name : {"train.k =", "train.steps =", "run.seed =", "run.name =", "sync.k"}) {
    if (line.starts_with(name)) return true;
  }
  return false;
}

// What losses depend on, though regions need not agree on it.
std::string other_settings(const Config& config) {
  std::string text = "evaluated on " + std::to_string(config.train.validation_sequences) +
                     ", overlap " + std::to_string(config.sync.overlap_steps);
  for (const RegionConfig& region : config.regions)
    text += " " + std::to_string(region.overlap_steps);
  return text + "\n";
}

KnownLosses read_cache(const std::filesystem::path& file) {
  KnownLosses losses;
  std::istringstream lines(read_text_file(file));
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("val_loss")) continue;
    losses[{json.value("k", 0U), json.value("steps", std::uint64_t{0}),
            json.value("seed", std::uint64_t{0})}] = json["val_loss"].get<double>();
  }
  return losses;
}

void append(const std::filesystem::path& file, const LossKey& key, double loss) {
  diloco::create_private_directories(file.parent_path());
  const nlohmann::ordered_json line{
      {"k", key.k}, {"steps", key.steps}, {"seed", key.seed}, {"val_loss", loss}};
  diloco::append_to_file(file, line.dump() + "\n");
}

std::array<LossKey, 3> triple(const LossKey& base) {
  return {base,
          {kCalibrationRatio * base.k, base.steps, base.seed},
          {base.k, base.steps / 2, base.seed}};
}

// Runs of timed steps have none, and no calibration either.
std::string data_digest(const Config& config) {
  if (config.train.timed_step_ms > 0) return "";
  const intra::Dataset data(config.data);
  const intra::DataReading reading(config.data, data, nullptr, {});
  const diloco::DataDigest digest = *reading.digests().of_region;
  return diloco::to_hex(digest.whole.value_or(digest.sample));
}

class Calibrator {
 public:
  Calibrator(const Config& config, const RealRuns& runs, const CalibrationOptions& options,
             const std::function<void(const std::string&)>& note)
      : config_(config),
        runs_(runs),
        options_(options),
        note_(note),
        file_(options.cache / (calibration_key(config) + ".jsonl")),
        losses_(read_cache(file_)) {}

  Calibration run() {
    const std::uint64_t steps = steps_for_budget();
    const auto begin = std::chrono::steady_clock::now();
    std::size_t made = 0;
    for (std::uint64_t seed = config_.train.seed; steps > 0 && made < kTriplesWanted; ++seed) {
      const LossKey base{config_.train.k, steps, seed};
      if (triple_of(base)) continue;
      const double needed_s = kStepsPerTriple * seconds_of(steps);
      if (made > 0 && spent_s(begin) + needed_s > options_.budget_s) break;
      for (const LossKey& key : triple(base)) measure(key, {.baseline = key == base});
      ++made;
    }
    return summarize();
  }

 private:
  static double spent_s(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  // All regions share this host. Of K and 4K, the smaller has the more rounds.
  double seconds_of(std::uint64_t steps) const {
    return kStartS + double(steps) * (options_.step_s * double(config_.regions.size()) +
                                      kRoundS / config_.train.k);
  }

  // T: three triples within the budget; 0 without one.
  std::uint64_t steps_for_budget() const {
    const std::uint64_t unit = 2ULL * kCalibrationRatio * config_.train.k;
    const double per_unit_s = kTriplesWanted * kStepsPerTriple * seconds_of(unit);
    if (options_.budget_s <= 0 || per_unit_s <= 0) return 0;
    const std::uint64_t least = kUnitsMin * unit;
    if (config_.train.steps < least)
      throw ConfigError("--calibrate: its runs have at least " + std::to_string(least) +
                        " steps with K = " + std::to_string(config_.train.k) +
                        ", and train.steps is " + std::to_string(config_.train.steps) +
                        ": raise it, or lower train.k");
    if (options_.budget_s < kUnitsMin * per_unit_s)
      throw ConfigError("--calibrate " + format_fixed(options_.budget_s, 0) +
                        ": that is too short for three runs of each kind; give it " +
                        format_fixed(std::ceil(kUnitsMin * per_unit_s), 0) +
                        " or more, or lower train.k");
    const double units =
        std::min(options_.budget_s / per_unit_s, double(config_.train.steps) / double(unit));
    // A power of two, so that the next calibration adds to this one.
    return unit * std::bit_floor(static_cast<std::uint64_t>(units));
  }

  std::optional<diloco::tuner::PairedLosses> triple_of(const LossKey& base) const {
    const auto keys = triple(base);
    if (!std::ranges::all_of(keys, [this](const LossKey& key) { return losses_.contains(key); }))
      return std::nullopt;
    diloco::tuner::PairedLosses found{losses_.at(keys[0]), losses_.at(keys[1]),
                                      losses_.at(keys[2])};
    if (const auto lockstep = losses_.find(base.lockstep()); lockstep != losses_.end())
      found.lockstep = lockstep->second;
    return found;
  }

  std::map<LossKey, diloco::tuner::PairedLosses> complete_triples() const {
    std::map<LossKey, diloco::tuner::PairedLosses> found;
    for (const auto& [key, loss] : losses_) {
      if (key.k != config_.train.k) continue;
      if (const auto losses = triple_of(key)) found[key] = *losses;
    }
    return found;
  }

  void measure(const LossKey& key, RealRuns::How how) {
    if (losses_.contains(key)) return;
    const std::string name = "k" + std::to_string(key.k) + "-steps" + std::to_string(key.steps) +
                             "-seed" + std::to_string(key.seed);
    note_("calibrating: K = " + std::to_string(key.k) + ", " + std::to_string(key.steps) +
          " steps, seed " + std::to_string(key.seed));
    runs_.run(
        name,
        {"train.k=" + std::to_string(key.k), "train.steps=" + std::to_string(key.steps),
         "run.seed=" + std::to_string(key.seed), "sync.k=fixed", "sync.k_min=0", "sync.k_max=0"},
        how);
    const Losses measured = measured_losses(runs_.path(name));
    keep(key, measured.run);
    if (measured.baseline) keep(key.lockstep(), *measured.baseline);
    std::filesystem::remove_all(runs_.path(name));
  }

  void keep(const LossKey& key, double loss) {
    losses_[key] = loss;
    append(file_, key, loss);
  }

  // The longest runs count alone: shorter ones are further from where training ends.
  Calibration summarize() const {
    Calibration out;
    out.k = config_.train.k;
    const auto found = complete_triples();
    for (const auto& [key, losses] : found) out.steps = std::max(out.steps, key.steps);
    std::vector<diloco::tuner::PairedLosses> longest;
    for (const auto& [key, losses] : found) {
      if (key.steps == out.steps) longest.push_back(losses);
    }
    out.triples = longest.size();
    if (!longest.empty()) out.fit = diloco::tuner::fit_lambda(longest, kCalibrationRatio, 2);
    return out;
  }

  const Config& config_;
  const RealRuns& runs_;
  const CalibrationOptions& options_;
  const std::function<void(const std::string&)>& note_;
  std::filesystem::path file_;
  KnownLosses losses_;
};

}  // namespace

std::string calibration_key(const Config& config) {
  std::string text;
  std::istringstream lines(shared_settings(config));
  for (std::string line; std::getline(lines, line);) {
    if (!is_own_setting(line)) text += line + "\n";
  }
  text += other_settings(config) + data_digest(config);
  return diloco::to_hex(diloco::sha256(std::as_bytes(std::span(text)))).substr(0, 16);
}

Calibration calibrate(const Config& config, const RealRuns& runs, const CalibrationOptions& options,
                      const std::function<void(const std::string&)>& note) {
  return Calibrator(config, runs, options, note).run();
}

}  // namespace causeway::run
