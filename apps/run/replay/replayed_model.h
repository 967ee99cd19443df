// What is done with a state that a replay computed, as with the model of a run that is over.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "apps/run/config/config.h"
#include "diloco/maths/layout.h"
#include "intra/base/safetensors.h"
#include "intra/outer/outer_state.h"

namespace causeway::run {

// A directory as checkpoints/final. A model that is not one of ours (of a training program that
// uses the worker API) is written as model.safetensors alone, under the tensors' own names.
void write_replayed_model(const std::filesystem::path& directory, const Config& config,
                          const diloco::Layout& layout, const intra::OuterState& state,
                          intra::StoredAs stored = intra::StoredAs::fp32);

// The validation loss of both, in words. Throws as intra::Dataset does if the data is not here, and
// ConfigError for a model that is not one of ours.
std::string loss_text(const Config& config, const diloco::Layout& layout,
                      std::span<const float> decided, std::span<const float> changed);

}  // namespace causeway::run
