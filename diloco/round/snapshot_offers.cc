#include "diloco/round/snapshot_offers.h"

#include <algorithm>

namespace causeway::diloco {
namespace {

// Snapshots that were something else, by the word of one region: none of its own is taken any more.
constexpr int kWrongMax = 3;

// Its newest, or one that it keeps for whoever fetches it.
bool offers_it(const Status& peer, const Snapshot& snapshot) {
  return peer.snapshot == snapshot || std::ranges::count(peer.older, snapshot) > 0;
}

}  // namespace

std::optional<Snapshot> SnapshotOffers::best(
    const std::function<bool(const Snapshot&)>& is_wanted) const {
  std::optional<Snapshot> best;
  int wrong_of_best = 0;
  for (const std::string& name : region_.peers.linked()) {
    const Status* status = region_.peers.status(name);
    if (status == nullptr || !status->snapshot) continue;
    if (status->revision != region_.history.revision())
      continue;  // it may be of what was taken back
    const std::optional<Snapshot> begun = begun_of(*status);
    const Snapshot offered = begun.value_or(*status->snapshot);
    if (!may_be_taken(name, offered) || !is_wanted(offered)) continue;
    if (begun) return offered;
    const int wrong = wrong_announced_by(name) + (is_remade(offered) ? 1 : 0);
    const bool better = !best || wrong < wrong_of_best ||
                        (wrong == wrong_of_best && offered.version > best->version);
    if (!better) continue;
    best = offered;
    wrong_of_best = wrong;
  }
  return best;
}

// That it offers and that is on its way here, or was before this process started.
std::optional<Snapshot> SnapshotOffers::begun_of(const Status& peer) const {
  const std::optional<Snapshot>& target = region_.spool.target();
  if (target && offers_it(peer, *target)) return target;
  const auto one = std::ranges::find_if(peer.older, [this](const Snapshot& older) {
    return region_.spool.begun().contains(older.blob);
  });
  return one == peer.older.end() ? std::nullopt : std::optional(*one);
}

bool SnapshotOffers::may_be_taken(const std::string& peer, const Snapshot& offered) const {
  // Without bytes it would stand for the initial weights.
  if (offered.blob.size_bytes == 0) return false;
  if (region_.fetcher.in_vain(offered.blob)) return false;
  if (wrong_announced_by(peer) >= kWrongMax || refused_.contains(offered)) return false;
  const bool recorded = offered.version < region_.history.version() ||
                        (offered.version == 0 && region_.agreement.origin());
  return recorded || !contradicted({offered.version, offered.state});
}

int SnapshotOffers::wrong_announced_by(const std::string& peer) const {
  const auto found = wrong_announced_.find(peer);
  return found == wrong_announced_.end() ? 0 : found->second;
}

// Of what the run begins with, the log names a file.
bool SnapshotOffers::is_remade(const Snapshot& offered) const {
  const std::optional<Origin>& origin = region_.agreement.origin();
  return offered.version == 0 && origin && offered.blob != origin->blob;
}

// No record says what the last version is, and at the end of the run none will.
bool SnapshotOffers::contradicted(const Applied& state) const {
  int alike = 0, otherwise = 0;
  for (const std::string& name : region_.peers.up()) {
    const Status* status = region_.peers.status(name);
    if (status == nullptr || !status->applied || status->applied->version != state.version)
      continue;
    status->applied == state ? ++alike : ++otherwise;
  }
  return otherwise > 0 && alike <= otherwise;
}

std::optional<std::string> SnapshotOffers::source_of(const Snapshot& snapshot) const {
  for (const std::string& name : region_.peers.linked()) {
    const Status* status = region_.peers.status(name);
    if (status != nullptr && offers_it(*status, snapshot)) return name;
  }
  return std::nullopt;
}

void SnapshotOffers::note_announcers(const Snapshot& target) {
  for (const std::string& name : region_.peers.linked()) {
    const Status* status = region_.peers.status(name);
    if (status != nullptr && offers_it(*status, target)) announcers_.insert(name);
  }
}

void SnapshotOffers::refuse(const Snapshot& snapshot) {
  refused_.insert(snapshot);
  if (region_.spool.target() != snapshot) return;
  for (const std::string& peer : announcers_) ++wrong_announced_[peer];
}

}  // namespace causeway::diloco
