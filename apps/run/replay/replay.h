// Computes the states of a run again from its ledger and payloads, with the worker's own code, and
// holds each against what the regions signed.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "apps/run/replay/reweighting.h"
#include "diloco/files/sealed_bytes.h"
#include "diloco/log/record.h"
#include "diloco/maths/layout.h"
#include "diloco/maths/train.h"
#include "intra/base/safetensors.h"
#include "intra/outer/outer_round.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {

struct ReplayOptions {
  std::vector<std::filesystem::path> paths;  // of regions, or of runs with regions in them
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

// Applies records to a state, as a worker does, but trains nothing and contributes nothing: a
// region of no name. `layout` outlives it.
intra::OuterRound applying_round(const Config& config, const diloco::Layout& layout);

// Applies `record`, whatever state it was made for. It lists some or all of the contributions that
// `listed` does, the ledger's record of that round, to which `payloads` belong; all of them if
// that has sums.
void apply_payloads(const intra::OuterRound& round, const diloco::CommitRecord& listed,
                    std::span<const diloco::MappedBytes> payloads, diloco::CommitRecord record,
                    intra::OuterState& state);

// Whether `causeway worker` can have trained a model of this layout with this configuration.
bool is_native_model(const Config& config, const diloco::Layout& layout);

// What is done with a state that a replay computed, as with the model of a run that is over.

struct NamedVersion {
  std::string run_id;
  diloco::Round version = 0;
};
// A directory as checkpoints/final, of `params` as `layout` places them. A model that is not one of
// ours (of a training program that uses the worker API) is written as model.safetensors alone,
// under the tensors' own names.
void write_replayed_model(const std::filesystem::path& directory, const Config& config,
                          const diloco::Layout& layout, std::span<const float> params,
                          const NamedVersion& named,
                          intra::StoredAs stored = intra::StoredAs::fp32);

// The validation loss of both, in words. Throws as intra::Dataset does if the data is not here, and
// ConfigError for a model that is not one of ours.
std::string loss_text(const Config& config, const diloco::Layout& layout,
                      std::span<const float> decided, std::span<const float> changed);

// Where two states of one version part.

// The first element in which the state differs from that in `file` (a snapshot), in words: span,
// tensor, element, both numbers. None: they are equal bit for bit. Throws
// intra::Errc::bad_checkpoint naming the file if it cannot be read.
std::optional<std::string> first_difference(const diloco::Layout& layout,
                                            const intra::OuterState& state,
                                            const std::filesystem::path& file);

}  // namespace causeway::run
