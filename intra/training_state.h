// Everything a region's training is, in memory and on disk.
//
// In memory, every rank holds all of it, but momentum and residual are right only in the rank's own
// segments (ownership.h). On disk there is one state per region, whatever the number of its ranks:
//   checkpoints/state.safetensors      params, Adam moments, anchor, outer momentum, residual;
//                                      counters as metadata
//   checkpoints/contribution-HASH.bin  the region's own payload of this round, while its outcome
//                                      is open
//   checkpoints/snapshot.safetensors   anchor and outer momentum alone, for other regions
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "diloco/digest.h"
#include "diloco/layout.h"
#include "diloco/record.h"
#include "intra/optimizer.h"

namespace causeway::intra {

struct TrainingState {
  TrainingState(const InnerOptions& inner, const diloco::Layout& layout);

  std::vector<float> params;    // what inner steps change
  std::vector<float> anchor;    // of `version`
  std::vector<float> momentum;  // of the outer optimizer
  std::vector<float> residual;  // error feedback
  std::vector<float>
      scratch;  // gradients in an inner step, delta or the reduced sum in an outer round
  AdamW optimizer;
  std::uint64_t optimizer_steps = 0;  // since the moments were zero, for bias correction

  diloco::Round version = 0;
  diloco::Digest digest{};          // of anchor and momentum
  std::string run_id;               // empty: fresh weights, of no run yet
  std::uint64_t data_cursor = 0;    // the region's sample cursor at the start of this round
  std::uint32_t step_in_round = 0;  // inner steps since `version`

  // The region's contribution to round `version`: kept until its outcome is known. Empty: none yet.
  std::vector<std::byte> payload;
  double delta_norm = 0, error_norm = 0;
  bool contributed = false;  // the coordinator has it (rank 0 knows)

  // False while an outer round or a restore is half way: if that fails, only the state on disk is
  // good.
  bool intact = true;

  std::uint64_t steps = 0, tokens = 0;  // of the region, over the whole run
  double compute_s = 0, wait_s = 0;
};

// State digest of whole spans.
diloco::Digest whole_digest(const TrainingState& state);

// Names the parameter tensors and their shapes: equal fingerprints, equal layouts.
std::string fingerprint(const diloco::Layout& layout);

std::filesystem::path checkpoint_directory(const std::filesystem::path& region_directory);
std::filesystem::path snapshot_file(const std::filesystem::path& region_directory);

// Momentum and residual must be complete. Atomic. Throws std::system_error naming the file.
void save_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                TrainingState& state);
// False if there is no state. Throws Errc::bad_checkpoint if it is corrupt or of another model.
bool load_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                TrainingState& state);

void save_snapshot(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                   const TrainingState& state);
// Adopts a snapshot: anchor, momentum, params; the residual and everything of the old round are
// dropped. Throws Errc::bad_checkpoint, and leaves `state` not intact, if it is not the state with
// this digest.
void adopt_snapshot(const std::filesystem::path& file, const diloco::Layout& layout,
                    diloco::Round version, const diloco::Digest& digest, TrainingState& state);

}  // namespace causeway::intra
