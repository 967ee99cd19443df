// What a worker leaves for whoever started it: JSON files in its directory.
// Those that are replaced are read whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "diloco/worker/worker_session.h"

namespace causeway::intra {

// What a finished worker (rank 0) leaves in directory/result.json; one of our own also leaves
// checkpoints/final.
struct WorkerResult {
  // At the end of the run. Steps, tokens and rounds are of the region over the whole run, those
  // included that a worker contributed which died before it saved; times and rates leave them out.
  // No val_loss: the trainer is not ours. What only ours can tell is not in the file then, and not
  // said here.
  diloco::Progress progress = {};
  std::uint64_t run_steps = 0;                 // of the run that it is the result of
  std::string run_id = {};                     // its; empty: an earlier version wrote it
  std::optional<double> common_val_loss = {};  // on data.validation_files
  std::string params_digest = {};              // hex Merkle root of the final anchor
  bool timed_steps = false;

  // An earlier run may have left it in the same directory. One that does not say is believed.
  bool is_of(const std::string& run) const { return run_id.empty() || run_id == run; }
  // That of this version's state, with which the run is over.
  bool ends(const std::string& run, diloco::Round version) const {
    return is_of(run) && version > 0 && progress.round() == version;
  }
  bool by_program() const { return !progress.has_val_loss(); }
  std::optional<double> val_loss() const {
    return by_program() ? std::nullopt : std::optional(progress.val_loss());
  }
  // The part of its time that it computed.
  double utilisation() const;
};

// Keys are those of Progress, with "steps" and "rounds", and WorkerResult's own. A loss that is not
// a number is null, and so is what is unknown.
nlohmann::ordered_json to_json(const WorkerResult& result);

// result.json.
void write_result(const std::filesystem::path& directory, const WorkerResult& result);
// None if there is none, or it is damaged.
std::optional<WorkerResult> read_result(const std::filesystem::path& directory);

// status.json of the synchronous baseline, for displays: as a coordinator writes it, with what
// there is of it. In other runs the worker reports through its coordinator.
void write_status(const std::filesystem::path& directory, const diloco::Progress& progress);

}  // namespace causeway::intra
