// Losses of short trials (learning/trial.h), kept in a file for each way to train.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "apps/run/config/config.h"

namespace causeway::run {

struct LossKey {
  std::uint32_t k = 0;
  std::uint64_t steps = 0, seed = 0;
  auto operator<=>(const LossKey&) const = default;

  // Of the run that synchronises every step.
  LossKey lockstep() const { return {0, steps, seed}; }
};

class LossTable {
 public:
  // Reads what `directory` holds of trials of this configuration.
  LossTable(const Config& config, const std::filesystem::path& directory);

  std::optional<double> find(const LossKey& key) const;
  const std::map<LossKey, double>& all() const { return losses_; }
  // A run synchronised every step if key.k is 0. Trials of one table may run side by side.
  double train(const LossKey& key) const;
  void keep(const LossKey& key, double loss);

 private:
  Config config_;
  std::filesystem::path file_;
  std::map<LossKey, double> losses_;
};

// Names everything that the losses depend on but K, the number of steps and the seed: model,
// data, optimizers, codec, batch and the number of regions.
std::string calibration_key(const Config& config);

}  // namespace causeway::run
