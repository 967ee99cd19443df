// Computes the states of a run again from its ledger and payloads, with the worker's own code, and
// holds each against what the regions signed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/replay/reweighting.h"
#include "diloco/maths/train.h"

namespace causeway::run {

struct ReplayOptions {
  std::vector<std::filesystem::path> paths;  // of regions, or of runs with regions/ in them
  std::filesystem::path certificates;        // as for verify()
  std::vector<std::string> overrides;        // of the configuration that was kept
  diloco::Round from = 0;                    // begin with the newest state kept up to this version
  std::optional<diloco::Round> to;           // default: as far as the ledger goes
  std::filesystem::path model;  // where to write the model of `model_version`; empty: nowhere
  std::optional<diloco::Round> model_version;  // default: the last one
  // Then the model is the one that these give, and both are compared.
  std::vector<Reweighting> changes;
  bool loss = false;  // of both, on the run's validation data
};

struct Replay {
  bool right = true;               // every state is the signed one
  std::vector<std::string> lines;  // what was found, for people
};

// Throws ConfigError for options that do not fit the run, and std::system_error
// (diloco::Errc::lineage) if something that is needed was not kept or is damaged.
Replay replay(const ReplayOptions& options);

}  // namespace causeway::run
