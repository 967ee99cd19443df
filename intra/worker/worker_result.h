// What a worker leaves for whoever started it: JSON files in its directory. Those that are replaced
// are read whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "diloco/worker/worker_session.h"

namespace causeway::intra {

// What a finished worker (rank 0) leaves in directory/result.json; one of our own also leaves
// checkpoints/final.
struct WorkerResult {
  // Of the region over the whole run, those included that a worker contributed which died before
  // it saved; times and rates leave them out.
  std::uint64_t steps = 0, tokens = 0, rounds = 0;
  std::uint64_t run_steps = 0;  // of the run that it is the result of
  // None: the trainer is not ours. What only ours can tell is not in the file then, and not said
  // here: run_steps, common_val_loss, in_region_s, device_memory_peak_bytes, mfu, timed_steps.
  std::optional<double> val_loss = {};
  std::optional<double> common_val_loss = {};  // on data.validation_files
  double compute_s = 0, wait_s = 0;
  double in_region_s = 0, outer_s = 0;  // of the two, as in diloco::Progress
  std::uint64_t memory_peak_bytes = 0, device_memory_peak_bytes = 0;
  double tokens_per_s = 0;    // of compute_s
  double mfu = 0;             // over the whole run; 0: unknown
  std::string params_digest;  // hex Merkle root of the final anchor
  bool timed_steps = false;
};

// result.json: keys are WorkerResult's members. A loss that is not a number is null, and so
// is an unknown mfu of ours.
void write_result(const std::filesystem::path& directory, const WorkerResult& result);
// None if there is none, or it is damaged.
std::optional<WorkerResult> read_result(const std::filesystem::path& directory);

// status.json of the synchronous baseline, for displays: as a coordinator writes it, with what
// there is of it. In other runs the worker reports through its coordinator.
void write_status(const std::filesystem::path& directory, const diloco::Progress& progress);

}  // namespace causeway::intra
