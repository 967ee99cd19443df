#include "intra/worker/heal_ranks.h"

#include <cassert>
#include <cstring>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include <spdlog/spdlog.h>

#include "intra/collective/collective.h"

namespace causeway::intra {
namespace {

// What the ranks compare, as bytes: no padding.
struct Fingerprint {
  diloco::Digest params, state, open;
  std::uint64_t version, steps, intact;
};
static_assert(sizeof(Fingerprint) == 3 * sizeof(diloco::Digest) + 3 * sizeof(std::uint64_t));

std::vector<Fingerprint> gather(Collective& group, const TrainingState& state) {
  const Fingerprint own{diloco::merkle_root(diloco::merkle_leaves(state.params)),
                        state.digest,
                        open_digest(state),
                        state.version,
                        state.step_in_round(),
                        state.intact && state.optimizer.has_all() ? 1U : 0U};
  std::vector<Fingerprint> all;
  for (const auto& bytes : group.all_gather(std::as_bytes(std::span(&own, 1)))) {
    assert(bytes.size() == sizeof(Fingerprint));
    std::memcpy(&all.emplace_back(), bytes.data(), sizeof(Fingerprint));
  }
  return all;
}

// The lowest rank that holds the newest whole state.
std::optional<std::size_t> newest(const std::vector<Fingerprint>& all) {
  std::optional<std::size_t> best;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].intact == 0) continue;
    const auto age = [&](std::size_t r) { return std::tuple(all[r].version, all[r].steps); };
    if (!best || age(*best) < age(rank)) best = rank;
  }
  return best;
}

}  // namespace

Healing heal_ranks(Collective& group, const std::filesystem::path& region_directory,
                   const diloco::Layout& layout, TrainingState& state, std::uint32_t states_kept) {
  const bool whole = state.intact && state.optimizer.has_all();
  if (group.size() == 1) return whole ? Healing::same : Healing::none_is_whole;
  const std::vector<Fingerprint> all = gather(group, state);
  const std::optional<std::size_t> donor = newest(all);
  if (!donor) return Healing::none_is_whole;
  const auto differs = [&](std::size_t rank) {
    return std::memcmp(&all[rank], &all[*donor], sizeof(Fingerprint)) != 0;
  };
  std::size_t different = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) different += differs(rank) ? 1 : 0;
  if (different == 0) return Healing::same;
  spdlog::info("{} of {} ranks take the state of version {}, step {} of the round, from another",
               different, all.size(), all[*donor].version, all[*donor].steps);
  together(group, "handing the state over", [&] {
    if (group.rank() == *donor) save_state(region_directory, layout, state, states_kept);
  });
  together(group, "taking the state over", [&] {
    if (differs(group.rank())) load_state(region_directory, layout, state);
  });
  return Healing::newest;
}

}  // namespace causeway::intra
