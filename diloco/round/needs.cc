#include "diloco/round/needs.h"

#include <algorithm>

namespace causeway::diloco {
namespace {

constexpr Round kRoundsFetched = 256;  // at once

// Not in the order of names: whoever names something large would take the room of all behind it.
void add_open(const Region& region, std::vector<Need>& needs, bool urgent) {
  std::vector<Need> open;
  for (const auto& [key, contribution] : region.contributions.open()) {
    std::vector<inter::BlobId> lacking = region.shards.due(contribution);
    std::erase_if(lacking, [&](const inter::BlobId& blob) { return region.spool.holds(blob); });
    if (lacking.empty() || region.exceeds_share(contribution)) continue;
    const std::uint64_t claimed_bytes = region.claimed_bytes(contribution);
    for (const inter::BlobId& blob : lacking)
      open.push_back({blob, key.region, urgent, claimed_bytes});
  }
  std::ranges::stable_sort(open, {}, &Need::claimed_bytes);
  needs.insert(needs.end(), open.begin(), open.end());
}

// Sums of shards, of the open round.
void add_sums(const Region& region, std::vector<Need>& needs, bool urgent) {
  const std::vector<inter::BlobId> sums = region.shards.sums();
  for (std::uint32_t i = 0; i < sums.size(); ++i) {
    if (!region.spool.holds(sums[i]))
      needs.push_back({.blob = sums[i], .source = region.shards.maker_of_sum(i), .urgent = urgent});
  }
}

// Of what its record needs to be applied: who made each.
std::vector<std::string> makers_in(const Region& region, Round round) {
  std::vector<std::string> makers;
  const CommitRecord& record = region.history.record(round);
  if (record.sums.empty()) {
    for (const Participant& one : record.participants) makers.push_back(one.region);
    return makers;
  }
  const auto count = static_cast<std::uint32_t>(record.sums.size());
  const CommitRecord* before = round == 0 ? nullptr : &region.history.record(round - 1);
  const Summers summers(before, region.agreement.members());
  for (std::uint32_t shard = 0; shard < count; ++shard) makers.push_back(summers.first(shard));
  return makers;
}

// The worker applies them in order: behind what nobody has, none is of use that nobody is known to
// have. A snapshot leads on.
void add_listed(const Region& region, std::vector<Need>& needs, Round from, Round to, bool urgent) {
  const bool leads_on = urgent || can_replay(region, from);
  for (Round round = from; round < to; ++round) {
    if (!leads_on && !region.peers.any_has_payloads(round)) continue;
    const std::vector<std::string> makers = makers_in(region, round);
    const std::vector<inter::BlobId> blobs = applied_blobs(region.history.record(round));
    for (std::size_t i = 0; i < blobs.size(); ++i) {
      if (region.spool.holds(blobs[i])) continue;
      needs.push_back(
          {.blob = blobs[i], .source = region.peers.holder_of(makers[i], round), .urgent = urgent});
    }
  }
}

}  // namespace

bool can_replay(const Region& region, Round from) {
  const Round missing = region.spool.first_missing(from);
  if (missing == region.history.version() || region.peers.any_has_payloads(missing)) return true;
  // The record came before the word of those that have what it lists.
  const bool newest = missing + 1 == region.history.version();
  return newest && region.peers.any_has_newest_payloads(missing);
}

Needs needs_of(const Region& region, Round from, bool leap, const std::optional<Need>& snapshot) {
  const Round version = region.history.version();
  Needs needs;
  std::vector<Need>& blobs = needs.blobs;
  needs.leap = leap;
  needs.from = from;
  // What it needs no sooner must not take the room of what it needs next.
  needs.later = std::min(version, from + 2 * region.options.pace.fragments);
  if (leap && snapshot) blobs.push_back(*snapshot);
  add_listed(region, blobs, from, needs.later, true);
  const bool waits_for_others = from == version;  // its worker has applied all there is
  add_open(region, blobs, waits_for_others);
  add_sums(region, blobs, waits_for_others);
  add_listed(region, blobs, needs.later, std::min(version, from + kRoundsFetched), false);
  if (!leap && snapshot) blobs.push_back(*snapshot);
  return needs;
}

}  // namespace causeway::diloco
