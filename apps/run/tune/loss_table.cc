#include "apps/run/tune/loss_table.h"

#include <span>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/suitable_outer.h"
#include "apps/run/learning/trial.h"
#include "apps/run/region/region_files.h"
#include "apps/run/tune/calibration.h"
#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "intra/data/data_reading.h"

namespace causeway::run {
namespace {

// That trials choose themselves; sync.k and its limits: K is fixed in them. An outer step that is
// chosen follows from the rest.
bool is_own_setting(const std::string& line, const Config& config) {
  if (config.outer_chosen && line.starts_with("outer.")) return true;
  for (const char* name : {"train.k =", "train.steps =", "run.seed =", "run.name =", "sync.k"}) {
    if (line.starts_with(name)) return true;
  }
  return false;
}

// The outer step of the whole run, where it is chosen: of trials, which are shorter, too. With that
// of a run of their few rounds they would say what another outer step learns.
std::string chosen_outer(Config config, std::uint32_t k) {
  config.train.k = k;
  const diloco::OuterOptions outer = suitable_outer(config);
  return fmt::format(", outer step chosen: {} {} {} {}", int(outer.kind), outer.lr, outer.momentum,
                     int(outer.mean));
}

// What losses depend on, though regions need not agree on it.
std::string other_settings(const Config& config) {
  std::string text = fmt::format("evaluated on {}, overlap {}", config.train.validation_sequences,
                                 config.sync.overlap_steps);
  for (const RegionConfig& region : config.regions)
    text += fmt::format(" {}", region.overlap_steps);
  if (config.outer_chosen)
    text += chosen_outer(config, config.train.k) +
            chosen_outer(config, kCalibrationRatio * config.train.k);
  return text + "\n";
}

// Runs of timed steps have none, and no calibration either.
std::string data_digest(const Config& config) {
  if (config.train.timed_step_ms > 0) return "";
  const intra::Dataset data(config.data);
  const intra::DataReading reading(config.data, data, nullptr, {});
  const diloco::DataDigest digest = *reading.digests().of_region;
  return diloco::to_hex(digest.whole.value_or(digest.sample));
}

std::map<LossKey, double> read_losses(const std::filesystem::path& file) {
  std::map<LossKey, double> losses;
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

}  // namespace

std::string calibration_key(const Config& config) {
  std::string text;
  std::istringstream lines(shared_settings(config));
  for (std::string line; std::getline(lines, line);) {
    if (!is_own_setting(line, config)) text += line + "\n";
  }
  text += other_settings(config) + data_digest(config);
  return diloco::to_hex(diloco::sha256(std::as_bytes(std::span(text)))).substr(0, 16);
}

LossTable::LossTable(const Config& config, const std::filesystem::path& directory)
    : config_(config),
      file_(directory / (calibration_key(config) + ".jsonl")),
      losses_(read_losses(file_)) {}

std::optional<double> LossTable::find(const LossKey& key) const {
  const auto found = losses_.find(key);
  return found == losses_.end() ? std::nullopt : std::optional(found->second);
}

double LossTable::train(const LossKey& key) const {
  Config trial = config_;
  trial.train.seed = key.seed;
  if (key.k > 0) trial.train.k = key.k;
  trial.sync.k_auto = false;
  if (trial.outer_chosen) take_suitable_outer(trial);
  trial.train.steps = key.steps;
  return (key.k > 0 ? train_in_rounds(trial) : train_in_lockstep(trial)).loss;
}

void LossTable::keep(const LossKey& key, double loss) {
  losses_[key] = loss;
  append(file_, key, loss);
}

}  // namespace causeway::run
