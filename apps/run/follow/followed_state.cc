#include "apps/run/follow/followed_state.h"

#include <string>
#include <utility>

#include "apps/run/replay/replay.h"
#include "intra/model/model.h"
#include "intra/outer/state_file.h"

namespace causeway::run {
namespace {

namespace fs = std::filesystem;

// Names and shapes are no part of a state's digest: those of a model of ours are known.
diloco::Layout layout_in(const Config& config, const fs::path& snapshot) {
  const intra::StateReader reader(snapshot);
  auto layout = intra::parse_tensors(reader.get("tensors"), reader.get("layout"));
  if (!layout || layout->size() > fs::file_size(snapshot) / (2 * sizeof(float)))
    reader.refuse("names other tensors than it holds");
  const bool other = config.built_in_trainer() &&
                     intra::fingerprint(*layout) !=
                         intra::fingerprint(diloco::Layout(intra::parameter_tensors(config.model)));
  if (other) reader.refuse("does not have the tensors of the configured model");
  return std::move(*layout);
}

}  // namespace

FollowedState::FollowedState(const Config& config, const std::string& run_id,
                             const fs::path& snapshot, diloco::Round version,
                             const diloco::Digest& digest)
    : config_(config),
      layout_(layout_in(config, snapshot)),
      round_(applying_round(config, layout_)),
      alone_(intra::make_solo_collective()),
      state_(layout_, {.residual = false, .moments = false}) {
  intra::adopt_snapshot(intra::StateReader(snapshot), layout_, version, digest, state_);
  state_.run_id = run_id;
}

void FollowedState::apply(const diloco::CommitRecord& record,
                          std::span<const std::span<const std::byte>> payloads) {
  round_.apply(*alone_, record, payloads, state_);
}

void FollowedState::save(const fs::path& file) const {
  intra::write_snapshot(file, layout_, state_);
}

void FollowedState::write_model(const fs::path& directory, intra::StoredAs stored) const {
  write_replayed_model(directory, config_, layout_, state_.anchor, {state_.run_id, state_.version},
                       stored);
}

}  // namespace causeway::run
