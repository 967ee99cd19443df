// What this region still has to get, and from whom: payloads that its worker applies next, or a
// snapshot if the worker is too far behind or of another state than the run agreed on.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "diloco/region/region.h"

namespace causeway::diloco {

class CatchUp {
 public:
  explicit CatchUp(Region& region);

  // ---- Questions ----
  // The payloads of rounds [from, version) are here or at a peer that can be asked.
  bool can_replay(Round from) const;
  // Whoever says to have what is missing did not send it.
  bool replays_in_vain(Round from) const;
  // It is what the run agreed on, as far as that can be known.
  bool trusted(const Snapshot& snapshot) const;
  // A worker that adopts it can go on from there.
  bool helps(const Snapshot& snapshot) const;
  bool own_snapshot_helps() const { return spool_.snapshot() && helps(*spool_.snapshot()); }
  // What the worker needs next, if everybody was asked for it in vain and no snapshot helps.
  std::vector<inter::BlobId> missing_in_vain() const;
  // Every worker can make the initial weights.
  bool can_begin_again() const { return !agreement_.origin() && can_replay(0); }

  // ---- Snapshots ----
  // The worker's newest becomes this region's when a record confirms its state: it replaces the one
  // that a wrong state is healed from.
  void confirm_snapshot();
  // No record follows the last version, but all regions were seen to agree on it.
  void confirm_final_snapshot();
  // The record of a round names the agreed state that it starts from: the worker's may be wrong.
  void check_state();

  // ---- Fetching ----
  // Looks anew for a peer's snapshot to adopt. True: that one is here already.
  bool choose_target();
  void fetch(Time now);
  void expect(const inter::BlobId& payload, const std::string& peer, Time now);  // it is pushed
  // Later rounds make room for what the worker needs next.
  void release_later();

 private:
  std::optional<Snapshot> find_target() const;
  Round replay_from() const;
  Round rounds_fetched() const;
  std::map<inter::BlobId, Fetcher::Want> needed() const;
  void add_listed(std::map<inter::BlobId, Fetcher::Want>& wanted) const;
  void check_origin();
  bool held_elsewhere(Round round) const;

  const ProtocolOptions& options_;
  const Agreement& agreement_;
  const RunHistory& history_;
  const Contributions& contributions_;
  const Peers& peers_;
  RegionWorker& worker_;
  Spool& spool_;
  Fetcher& fetcher_;
  Outbox& out_;
};

}  // namespace causeway::diloco
