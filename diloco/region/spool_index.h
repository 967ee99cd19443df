// What this region's disk holds: payloads and snapshots, and when each may go.
//
// A blob stays while something names it: an open contribution, a record whose payloads are not
// released yet, or a snapshot. What nothing names yet is unclaimed and stays for two more rounds: a
// record or a contribution may still come to name it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "diloco/region/action.h"
#include "diloco/region/contributions.h"
#include "diloco/region/protocol_options.h"
#include "diloco/region/run_history.h"

namespace causeway::diloco {

class SpoolIndex {
 public:
  // All must outlive this.
  SpoolIndex(const ProtocolOptions& options, const RunHistory& history,
             const Contributions& contributions, Outbox& out)
      : options_(options), history_(history), contributions_(contributions), out_(out) {}

  // What is on disk when a coordinator starts. claim_restored() is for when all that names blobs is
  // known again.
  void restore(std::set<inter::BlobId> blobs, const std::optional<Snapshot>& snapshot);
  void claim_restored();

  // ---- Blobs ----
  bool holds(const inter::BlobId& blob) const { return blobs_.contains(blob); }
  bool holds_all(const std::vector<inter::BlobId>& blobs) const;
  bool holds_all(const CommitRecord& record) const;  // that a worker needs to apply it
  // The first round at or after `from` of which a listed payload is not here.
  Round first_missing(Round from) const;
  Round payloads_from() const;  // all from this round on are here
  void put(const inter::BlobId& blob);
  void leave_unclaimed(const inter::BlobId& blob) { unclaimed_[blob] = history_.version(); }
  void claim(const inter::BlobId& blob) { unclaimed_.erase(blob); }
  void leave_unclaimed_if_unnamed(const inter::BlobId& blob);
  // The newest record names its payloads.
  void list(const CommitRecord& record);
  // What the records from this round on listed is not; returns it. They are about to be replaced.
  std::vector<inter::BlobId> unlist_from(Round round);
  // Snapshots of states that were taken back.
  void drop_void_snapshots();
  // Unless something names it. `listed`: as RemoveBlob has it.
  void discard(const inter::BlobId& blob, bool listed = false);
  // Although a record names it: it is to be fetched again later.
  void drop(const inter::BlobId& blob) {
    blobs_.erase(blob);
    from_.reset();
  }
  // It is damaged, and gone: snapshots of it are none any more.
  void lose(const inter::BlobId& blob);
  const std::set<inter::BlobId>& blobs() const { return blobs_; }
  // The first round whose record lists it, if it is not released.
  std::optional<Round> listed_in(const inter::BlobId& blob) const;
  // Something else than a contribution names it: a record that is not released, or a snapshot.
  bool kept(const inter::BlobId& blob) const;
  // Others were told how much of it is here, at most every kReportInterval.
  bool may_report_progress(const inter::BlobId& blob, Time now);
  void forget_progress(const inter::BlobId& blob) { progress_reported_at_.erase(blob); }

  // ---- Room ----
  // As it is when an event comes in: what is free beside the full sizes of all blobs that are here
  // or have begun, and which have begun.
  void set_room(std::uint64_t bytes, std::set<inter::BlobId> begun);
  std::uint64_t room_bytes() const { return room_bytes_; }
  const std::set<inter::BlobId>& begun() const { return begun_; }
  // For something that is needed more, although a record names it: it is fetched again if its turn
  // comes.
  void give_up(const inter::BlobId& blob);

  // ---- Letting go ----
  Round released() const { return released_; }  // payloads of rounds before this one are gone
  // `applied`: what the worker holds.
  void release_old(const std::optional<Applied>& applied);
  void discard_stale();  // that nothing came to name

  // ---- Snapshots ----
  const std::optional<Snapshot>& snapshot() const { return snapshot_; }  // of an agreed state
  void adopt(const Snapshot& snapshot);  // in place of that one, which is an older one then
  // Those before it that peers go on from. A link that takes longer for one than the run takes for
  // the next would never bring any.
  const std::vector<Snapshot>& older() const { return older_; }
  // All but these, to each of which the round is told whose payloads are needed next. And those
  // with payloads behind it of more than 16 times their bytes: links that carry a snapshot so
  // slowly are slower than the run.
  void release_older(const std::map<Snapshot, Round>& leaps);
  // The worker's newest, not confirmed by a record yet.
  const std::optional<Snapshot>& offered() const { return offered_; }
  void offer(const Snapshot& snapshot);
  Snapshot take_offered() { return *std::exchange(offered_, std::nullopt); }
  // At the end of the run all regions were seen to agree on it. The one before stays on disk.
  void adopt_offered_at_end();
  std::optional<Round> newest_snapshot() const;  // the version, confirmed or only offered
  // A peer's snapshot that the worker will adopt.
  const std::optional<Snapshot>& target() const { return target_; }
  void aim_at(const std::optional<Snapshot>& target);
  void drop_target();  // it is not what it was said to be
  // It is here, and is what it was said to be: from here on it is this region's own, which can
  // serve others in turn.
  void adopt_target() { adopt(*std::exchange(target_, std::nullopt)); }
  // Those that this region's worker goes on from while it is not near the newest round: of a peer,
  // on its way, and its own. It needs the payloads since.
  std::vector<Snapshot> leaps(const std::optional<Applied>& applied) const;

 private:
  bool named(const inter::BlobId& blob) const { return kept(blob) || contributions_.names(blob); }
  bool may_be_on_disk(const inter::BlobId& blob) const;
  void forget(const inter::BlobId& blob);
  void unlist(const CommitRecord& record);
  void drop_snapshot(std::optional<Snapshot>& snapshot);
  void drop_older_if(const std::function<bool(const Snapshot&)>& can_go);
  std::uint64_t payload_bytes_since(Round from) const;

  const ProtocolOptions& options_;
  const RunHistory& history_;
  const Contributions& contributions_;
  Outbox& out_;
  std::set<inter::BlobId> blobs_;
  // payloads_from(), as last computed; none: something is gone that was here. Every event asks for
  // it, and to compute it anew takes a look at every payload that is kept.
  struct From {
    Round version = 0, from = 0;
    std::uint32_t revision = 0;
  };
  mutable std::optional<From> from_;
  std::set<inter::BlobId> begun_;  // not all of it is here
  std::uint64_t room_bytes_ = std::numeric_limits<std::uint64_t>::max();
  std::map<inter::BlobId, Round> unclaimed_;  // version at arrival
  Round released_ = 0;
  // By the records from there on. A joiner takes in many before it can release any.
  struct Listed {
    Round first = 0;
    std::size_t times = 0;
  };
  std::map<inter::BlobId, Listed> listed_;
  std::optional<Snapshot> snapshot_;
  std::vector<Snapshot> older_;
  Round needed_from_ = std::numeric_limits<Round>::max();  // by those that go on from these
  // What release_older() last went by: every event asks for it.
  std::optional<std::pair<Round, std::map<Snapshot, Round>>> judged_;
  std::optional<Snapshot> offered_;
  std::optional<Snapshot> target_;
  std::optional<Snapshot> aimed_;  // the last target, until the worker is near the newest round
  std::map<inter::BlobId, Time> progress_reported_at_;
};

}  // namespace causeway::diloco
