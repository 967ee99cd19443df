// Cluster: what a coordinator keeps, held against what anybody can still ask it for.
#include <algorithm>

#include "tests/diloco/cluster/cluster_parts.h"

namespace causeway::diloco::testing {
namespace {

// Blobs that no record names so far may be for the next two, and are looked at when one is added.
constexpr Round kUnclaimedRounds = 3;
constexpr std::size_t kSnapshotsMax = 3;  // confirmed, offered, and on its way to the worker

}  // namespace

// Of payloads: for regions that are just behind, for its own worker, and since its snapshot and
// those that others fetch.
Round Cluster::kept_from(const std::string& region) const {
  const Node& node = nodes_.at(region);
  const Round version = node.protocol->version();
  const Round from = version - std::min(version, rounds_kept());
  if (region == options_.witness) return from;
  const auto& applied = node.protocol->applied();
  const auto& snapshot = node.disk.snapshot;
  const bool has_snapshot = snapshot && node.disk.blobs.contains(snapshot->blob);  // undamaged
  Round kept =
      std::min({from, has_snapshot ? snapshot->version : 0, applied ? applied->version : 0});
  for (const Snapshot& older : node.protocol->status().older) kept = std::min(kept, older.version);
  return kept;
}

Round Cluster::rounds_kept() const {
  return std::max<Round>(2, (options_.staleness_max + 1) * options_.fragments);
}

// Whenever a region has another record.
void Cluster::check_memory(const std::string& region) {
  Node& node = nodes_.at(region);
  if (!node.protocol || node.checked == node.protocol->version()) return;
  node.checked = node.protocol->version();
  check_spool(region);
  if (node.protocol->raft().log().first_in_memory() < node.forgettable) {
    throw Violation(region + " keeps entries in memory that are on disk and of no use");
  }
  const Round in_use = 2 * rounds_kept() + options_.fragments;
  const Round before = std::min(kept_from(region), node.checked - std::min(node.checked, in_use));
  node.forgettable = std::max(node.forgettable, history_.index_of(before));
}

void Cluster::check_spool(const std::string& region) const {
  const Node& node = nodes_.at(region);
  const Round from = kept_from(region);
  std::size_t snapshots = 0;
  for (const inter::BlobId& blob : node.disk.blobs) {
    if (node.checked < node.stored_at.at(blob) + kUnclaimedRounds) continue;
    if (!history_.is_payload(blob)) {
      ++snapshots;
    } else if (!history_.needs(blob, from, node.checked) && options_.liar.empty()) {
      // Who lies can say that a later contribution has the same payload: docs/security.md.
      throw Violation(region + " at version " + std::to_string(node.checked) + " keeps " +
                      history_.describe(blob) + ", which is in no round from " +
                      std::to_string(from) + " on");
    }
  }
  const std::size_t older = node.protocol->status().older.size();
  if (older > 2 * nodes_.size()) throw Violation(region + " keeps too many older snapshots");
  if (snapshots > kSnapshotsMax + older) {
    throw Violation(region + " keeps " + std::to_string(snapshots) + " snapshots");
  }
}

}  // namespace causeway::diloco::testing
