// Everything a region's training is: what outer rounds need (outer_state.h), and what inner steps
// do. On disk it is one state, as state_file.h says.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "diloco/maths/digest.h"
#include "intra/base/adamw.h"
#include "intra/base/resources.h"
#include "intra/outer/outer_state.h"
#include "intra/outer/state_file.h"
#include "intra/step/worker_options.h"

namespace causeway::intra {

struct TrainingState : OuterState {
  TrainingState(const InnerOptions& inner, const diloco::Layout& layout, const Kept& kept = {});

  AdamW optimizer;
  std::uint64_t optimizer_steps = 0;  // since the moments were zero, for bias correction

  // Of the region, over the whole run; tokens: those that spent.compute_s was spent on.
  std::uint64_t steps = 0, tokens = 0;
  TimeSpent spent;

  // The data that the last step read, as far as it is known; none: no step was taken, or a version
  // that did not keep it wrote this.
  std::optional<diloco::DataDigest> trained_on;
  // Of a step that read this.
  void note_data(const diloco::DataDigest& data);

  // While it computed; 0 before it did.
  double tokens_per_s() const {
    return spent.compute_s > 0 ? static_cast<double>(tokens) / spent.compute_s : 0;
  }
};

// What a worker's run uses of it.
Kept kept_by(const WorkerOptions& options);

// What steps change of it.
enum class Settle : std::uint8_t { params, all };

// As image_of, save_image and load_outer_state, with all of it.
StateImage image_of(const diloco::Layout& layout, TrainingState& state);
void save_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                TrainingState& state, std::uint32_t kept = kStatesKept);
// False if there is no state.
bool load_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                TrainingState& state);

}  // namespace causeway::intra
