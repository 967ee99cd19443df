#include "intra/step/training_state.h"

namespace causeway::intra {

TrainingState::TrainingState(const InnerOptions& inner, const diloco::Layout& layout)
    : OuterState(layout), optimizer(inner, layout) {}

void save_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                TrainingState& state, std::uint32_t kept) {
  save_outer_state(region_directory, layout, state,
                   {flat_tensor("first_moment", state.optimizer.first_moment()),
                    flat_tensor("second_moment", state.optimizer.second_moment())},
                   {{"optimizer_steps", to_metadata(state.optimizer_steps)},
                    {"steps", to_metadata(state.steps)},
                    {"tokens", to_metadata(state.tokens)},
                    {"compute_s", to_metadata(state.compute_s)},
                    {"wait_s", to_metadata(state.wait_s)},
                    {"in_region_s", to_metadata(state.in_region_s)},
                    {"outer_s", to_metadata(state.outer_s)}},
                   kept);
}

bool load_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                TrainingState& state) {
  return load_outer_state(region_directory, layout, state, [&](const StateReader& reader) {
    state.optimizer.widen();
    reader.read("first_moment", state.optimizer.first_moment());
    reader.read("second_moment", state.optimizer.second_moment());
    reader.read("optimizer_steps", state.optimizer_steps);
    reader.read("steps", state.steps);
    reader.read("tokens", state.tokens);
    reader.read("compute_s", state.compute_s);
    reader.read("wait_s", state.wait_s);
    reader.read("in_region_s", state.in_region_s);
    reader.read("outer_s", state.outer_s);
  });
}

}  // namespace causeway::intra
