#include "intra/step/training_state.h"

#include <algorithm>
#include <map>
#include <string>

namespace causeway::intra {
namespace {

void put_if_known(const std::optional<diloco::DataDigest>& data,
                  std::map<std::string, std::string>& entries) {
  if (!data) return;
  entries["trained_on_sample"] = diloco::to_hex(data->sample);
  if (data->whole) entries["trained_on"] = diloco::to_hex(*data->whole);
}

diloco::Digest digest_at(const StateReader& reader, const std::string& key) {
  const std::optional<diloco::Digest> digest = diloco::from_hex(reader.get(key));
  if (!digest) reader.refuse("entry " + key + " is not a SHA-256: " + reader.get(key));
  return *digest;
}

// As of a region that has taken no step.
void begin_anew(TrainingState& state) {
  state.optimizer.widen();
  std::ranges::fill(state.optimizer.first_moment(), 0.0F);
  std::ranges::fill(state.optimizer.second_moment(), 0.0F);
  state.optimizer_steps = state.steps = state.tokens = 0;
  state.spent = {};
  state.trained_on.reset();
}

std::optional<diloco::DataDigest> trained_on(const StateReader& reader) {
  if (!reader.has("trained_on_sample")) return std::nullopt;
  diloco::DataDigest data{.sample = digest_at(reader, "trained_on_sample")};
  if (reader.has("trained_on")) data.whole = digest_at(reader, "trained_on");
  return data;
}

}  // namespace

// An optimizer that takes no steps has no parameters.
TrainingState::TrainingState(const InnerOptions& inner, const diloco::Layout& layout,
                             const Kept& kept)
    : OuterState(layout, kept),
      optimizer(inner, kept.moments ? layout : diloco::Layout(std::vector<diloco::TensorSpec>())) {}

// Of a sample alone it is not known that they are others than before.
void TrainingState::note_data(const diloco::DataDigest& data) {
  const bool may_be_the_same = trained_on && same_data(*trained_on, data);
  if (data.whole || !may_be_the_same) trained_on = data;
}

Kept kept_by(const WorkerOptions& options) {
  const bool outer = !options.synchronous;
  // A GPU's copy of the residual has a place to go to.
  const bool on_device = options.train.device != Device::cpu;
  return {.outer = outer,
          .residual = outer && (options.codec.feedback || on_device),
          .moments = options.train.timed_step_ms == 0};
}

StateImage image_of(const diloco::Layout& layout, TrainingState& state) {
  std::vector<TensorView> moments;
  for (const auto& [name, moment] : {std::pair("first_moment", state.optimizer.first_moment()),
                                     std::pair("second_moment", state.optimizer.second_moment())}) {
    if (!moment.empty()) moments.push_back(flat_tensor(name, moment));
  }
  std::map<std::string, std::string> counters = {
      {"optimizer_steps", to_metadata(state.optimizer_steps)},
      {"steps", to_metadata(state.steps)},
      {"tokens", to_metadata(state.tokens)},
      {"compute_s", to_metadata(state.spent.compute_s)},
      {"wait_s", to_metadata(state.spent.wait_s)},
      {"in_region_s", to_metadata(state.spent.in_region_s)},
      {"outer_s", to_metadata(state.spent.outer_s)}};
  put_if_known(state.trained_on, counters);
  return image_of(state, layout, std::move(moments), counters);
}

void save_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                TrainingState& state, std::uint32_t kept) {
  save_image(region_directory, image_of(layout, state), snapshot_of(state, layout), kept);
  state.on_disk = state.version;
}

bool load_state(const std::filesystem::path& region_directory, const diloco::Layout& layout,
                TrainingState& state) {
  bool is_own = false;
  const auto read_more = [&](const StateReader& reader) {
    state.optimizer.widen();
    reader.read_kept("first_moment", state.optimizer.first_moment());
    reader.read_kept("second_moment", state.optimizer.second_moment());
    reader.read("optimizer_steps", state.optimizer_steps);
    reader.read("steps", state.steps);
    reader.read("tokens", state.tokens);
    reader.read("compute_s", state.spent.compute_s);
    reader.read("wait_s", state.spent.wait_s);
    reader.read("in_region_s", state.spent.in_region_s);
    reader.read("outer_s", state.spent.outer_s);
    state.trained_on = trained_on(reader);
    is_own = true;
  };
  const bool found = load_outer_state(region_directory, layout, state, read_more);
  if (found && !is_own) begin_anew(state);
  return found;
}

}  // namespace causeway::intra
