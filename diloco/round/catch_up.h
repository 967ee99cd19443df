// What this region still has to get, and from whom: payloads that its worker applies next, or a
// snapshot if the worker is too far behind or of another state than the run agreed on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diloco/region/region.h"
#include "diloco/round/chase.h"
#include "diloco/round/needs.h"
#include "diloco/round/snapshot_offers.h"
#include "diloco/round/spool_room.h"

namespace causeway::diloco {

class CatchUp {
 public:
  explicit CatchUp(Region& region)
      : region_(region), chase_(kChaseRounds * region.options.pace.fragments) {}

  // ---- Questions ----
  // As needs.h has it.
  bool can_replay(Round from) const { return diloco::can_replay(region_, from); }
  // A snapshot is on its way, without which its worker can do nothing.
  bool awaits_snapshot() const {
    const std::optional<Snapshot>& target = region_.spool.target();
    return target && target_is_needed_ && !region_.spool.holds(target->blob);
  }
  // Whoever says to have what is missing did not send it.
  bool replays_in_vain(Round from) const;
  // It does not come nearer by replaying, and this region's own snapshot leads it on.
  bool leaps() const;
  // It is what the run agreed on, as far as that can be known.
  bool trusted(const Snapshot& snapshot) const;
  // A worker that adopts it can go on from there.
  bool helps(const Snapshot& snapshot) const;
  bool own_snapshot_helps() const {
    return region_.spool.snapshot() && helps(*region_.spool.snapshot());
  }
  // What the worker needs next, if everybody was asked for it in vain and no snapshot helps.
  std::vector<inter::BlobId> missing_in_vain() const;
  // Every worker can make the initial weights; a program only those that it brought.
  bool can_begin_again() const {
    return !region_.agreement.origin() && !region_.worker.brings_other_initial_values() &&
           can_replay(0);
  }

  // ---- Snapshots ----
  // The worker's newest becomes this region's when a record confirms its state: it replaces the one
  // that a wrong state is healed from.
  void confirm_snapshot();
  // No record follows the last version, but all regions were seen to agree on it.
  void confirm_final_snapshot();
  // Of a peer's: adopted, or never taken again.
  void on_checked(const Snapshot& snapshot, bool right);
  // The record of a round names the agreed state that it starts from: the worker's may be wrong.
  void check_state();

  // ---- Fetching ----
  // How far the worker is behind.
  void look();
  // Looks anew for a peer's snapshot to adopt. One that is here is checked first.
  void choose_target();
  void check_target();
  void fetch(Time now);
  void expect(const inter::BlobId& payload, const std::string& peer, Time now);  // it is pushed
  // What is needed least gives way, if the spool lacks room for so many bytes.
  void make_room(std::uint64_t bytes);

 private:
  void want(const std::map<inter::BlobId, Fetcher::Want>& wanted, Time now);
  std::optional<Snapshot> find_target() const;
  std::optional<Snapshot> target_under_way() const;
  void note_need();
  bool needs_snapshot() const;
  bool is_of_help(const Snapshot& offered) const;
  bool spares_rounds(const Snapshot& snapshot) const;
  bool is_worth_its_bytes(const Snapshot& offered) const;
  void refuse(const Snapshot& snapshot);
  void note_loss(const Snapshot& target);
  Round replay_from() const;
  Needs needed() const;
  void check_origin();
  bool most_others_hold(const Applied& state) const;
  void confirm_initial();

  static constexpr Round kChaseRounds = 8;  // Chase's window, of every fragment

  Region& region_;
  SpoolRoom room_{region_};
  Chase chase_;
  SnapshotOffers offers_{region_};
  std::optional<Snapshot> checking_;  // the target, which is here
  bool target_is_needed_ = false;     // or it only spares rounds
  std::optional<Round> stuck_at_;     // whose payloads were missing when it was needed last
};

}  // namespace causeway::diloco
