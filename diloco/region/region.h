// All that one region knows and holds, taken up where its disk left it. The machines of
// diloco/round act on it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diloco/log/messages.h"
#include "diloco/region/action.h"
#include "diloco/region/agreement.h"
#include "diloco/region/attached_worker.h"
#include "diloco/region/contributions.h"
#include "diloco/region/fetcher.h"
#include "diloco/region/peers.h"
#include "diloco/region/protocol_options.h"
#include "diloco/region/run_history.h"
#include "diloco/region/shards.h"
#include "diloco/region/spool_index.h"

namespace causeway::diloco {

// What is on disk when a coordinator starts.
struct PersistentState {
  std::string run_id;  // empty: a joiner that has not met the run yet
  RaftState raft;
  // This region's own: all that are neither listed nor expired, and the newest.
  std::vector<Contribution> contributions;
  std::optional<Snapshot> snapshot;
  std::optional<Applied> finished;  // what the worker was told to finish at
  std::set<inter::BlobId> blobs;    // complete ones
};

// Where this region stands, as it tells its peers, and when it tells them again.
class StatusReport {
 public:
  // All must outlive this.
  StatusReport(const RunHistory& history, const AttachedWorker& worker, const SpoolIndex& spool,
               Peers& peers)
      : history_(history), worker_(worker), spool_(spool), peers_(peers) {}

  void add_received(std::uint64_t bytes) { received_bytes_ += bytes; }
  void set_missing(std::vector<inter::BlobId> payloads) { missing_ = std::move(payloads); }
  const std::vector<inter::BlobId>& missing() const { return missing_; }
  void set_awaits_snapshot(bool awaits) { awaits_snapshot_ = awaits; }
  Status status() const;
  // At once when something changed that others act on; at most every kReportInterval when only
  // bytes arrived.
  void publish(Time now);
  std::optional<Time> next_deadline() const;

 private:
  std::optional<Snapshot> snapshot() const;
  std::vector<Snapshot> older() const;

  const RunHistory& history_;
  const AttachedWorker& worker_;
  const SpoolIndex& spool_;
  Peers& peers_;
  std::uint64_t received_bytes_ = 0;
  std::vector<inter::BlobId> missing_;
  bool awaits_snapshot_ = false;
  std::optional<Status> published_;
  Time published_at_{0};
};

struct Region {
  Region(ProtocolOptions options, PersistentState state);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // Bytes that are here: all of them only once the hash was checked.
  std::uint64_t held_bytes(const inter::BlobId& blob) const;
  // Of what this region is to hold of it.
  std::uint64_t held_bytes(const Contribution& contribution) const;
  bool holds(const Contribution& contribution) const;  // all of that
  // What its region's open contributions take of this disk, up to and with this one. Those that the
  // region told of itself come first: others may say more in its name.
  std::uint64_t claimed_bytes(const Contribution& contribution) const;
  // With it, its region would take more of the spool than all others leave it. It is not fetched
  // here, and not said to be held; regions with larger spools may list it all the same.
  bool exceeds_share(const Contribution& contribution) const;
  // A payload can get there: neither the peer nor a region on the way there is a witness.
  bool keeps_payloads(const std::string& peer) const;
  // What is new is pushed to it. A region that waits for a snapshot would wait longer; it is spared
  // as long as enough others can hold what is made.
  bool takes_pushes(const std::string& peer) const;
  // The leader says that this region's contribution was made from a wrong state.
  void reject_own(const Diverged& diverged);
  // Records leave memory when nothing but their place in history is of use any more: their payloads
  // are gone, and no contribution of their time can come. Whoever joins a long run, or was away for
  // long, gets more of them than fit before it has applied any: the oldest are read from disk.
  void forget_old();

  // Each refers to some of those before it.
  const ProtocolOptions options;
  double unix_s = 0;  // what a clock on the wall shows now
  Outbox out;
  Peers peers;
  Agreement agreement;
  RunHistory history;
  ShardDuties shards;
  Contributions contributions;
  SpoolIndex spool;
  Fetcher fetcher;
  AttachedWorker worker;
  StatusReport report;

 private:
  void restore_log();
};

}  // namespace causeway::diloco
