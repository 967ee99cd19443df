// The round protocol of one coordinator: a pure state machine. Events and the time go in, actions
// come out; it does no I/O, reads no clock and draws no random number but from its own seed, so the
// same object runs under TLS, in memory and under virtual time. docs/rounds.md tells the story.
//
// It tells machines what happened, lets each do what there is to do, and hands out the actions that
// they put into the outbox. What the region knows and holds is in diloco/region; what acts on it:
//
// - Contributions and payloads are announced, pushed and reported (exchange.h).
// - The leader proposes a record; Raft commits it; every region appends it (leader.h).
// - Every region fetches what it lacks (catch_up.h); its worker applies record after record, or
//   adopts a snapshot if too far behind or of another state (worker_orders.h).
// - Payloads that nobody can need any more are removed (region/spool_index.h).
// - At the last version the leader waits for the others, then everybody ends (run_end.h).
// - What the region waits for meanwhile is said in words (waiting_for.h).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "diloco/log/messages.h"
#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/exchange.h"
#include "diloco/round/leader.h"
#include "diloco/round/old_copy.h"
#include "diloco/round/run_end.h"
#include "diloco/round/same_work.h"
#include "diloco/round/summing.h"
#include "diloco/round/waiting_for.h"
#include "diloco/round/worker_orders.h"

namespace causeway::diloco {

// What a coordinator tells the round protocol: something happened.
struct RunIdLearned {
  std::string run_id;
};
struct PeerUp {
  std::string peer;
  std::string incarnation;
  std::string via = {};  // the third region that carries messages; empty: a direct link
};
struct PeerDown {
  std::string peer;
};
struct PeerSaid {
  std::string peer;
  Message message;
};
struct BlobArrived {
  inter::BlobId blob;
};
struct BlobProgress {
  inter::BlobId blob;
  std::uint64_t received_bytes = 0;
};  // of a blob in wanted()
// Its copy in the spool was found to be damaged, and was removed.
struct BlobLost {
  inter::BlobId blob;
};
// The peer was asked for it, and does not have it.
struct BlobAbsent {
  std::string peer;
  inter::BlobId blob;
};
struct WorkerAttached {
  Applied holds;
  bool has_lineage = false;
  std::string run_id;
  std::optional<DataDigest> common_data = {};  // that all regions must have
  NamedTensors tensors = {};                   // of a program; empty: not told
  bool open_work = false;                      // as in AttachRequest
};
struct WorkerReadData {  // all of it, after it attached
  DataDigest common_data;
};
struct WorkerLost {};
// It asks what to do.
struct WorkerReady {
  std::uint32_t steps = 0;  // that it took since the version that it holds, contributed or not
};
struct WorkerContributed {
  Contribution contribution;
};  // its payload is on disk
struct WorkerApplied {
  Applied holds;
};
// What SumShard asked for: the sum is on disk.
struct ShardSummed {
  Digest draft{};
  std::uint32_t shard = 0;
  inter::BlobId sum;
};
struct ShardNotSummed {
  Digest draft{};
  std::uint32_t shard = 0;
};
struct WorkerOffered {
  Snapshot snapshot;
};  // its blob is on disk
// What CheckSnapshot asked for. Wrong: its bytes are not the state that was announced.
struct SnapshotChecked {
  Snapshot snapshot;
  bool right = false;
};
struct RoomNeeded {
  std::uint64_t bytes = 0;
};  // for what the worker made: there is no room for it
struct OperatorAsked {
  ChangeMember change;
};
struct Tick {};  // time passed
using Event =
    std::variant<RunIdLearned, PeerUp, PeerDown, PeerSaid, BlobArrived, BlobProgress, BlobLost,
                 BlobAbsent, WorkerAttached, WorkerReadData, WorkerLost, WorkerReady,
                 WorkerContributed, WorkerApplied, ShardSummed, ShardNotSummed, WorkerOffered,
                 SnapshotChecked, RoomNeeded, OperatorAsked, Tick>;

class RoundProtocol {
 public:
  RoundProtocol(ProtocolOptions options, PersistentState state)
      : region_(std::move(options), std::move(state)) {}

  std::vector<Action> handle(const Event& event, Time now);
  // What a clock on the wall shows, in seconds since 1970. Told before each event: unlike the time
  // of handle(), it goes on while the host is suspended, and may be set back.
  void set_wall_clock(double unix_s) { region_.unix_s = unix_s; }
  // How many bytes the disk has room for beside the blobs that are here or have begun, and which
  // have begun. Told before an event; without it there is room for everything.
  void set_room(std::uint64_t bytes, std::set<inter::BlobId> begun) {
    region_.spool.set_room(bytes, std::move(begun));
  }
  // When a Tick is needed at the latest; none: only when something happens.
  std::optional<Time> next_deadline() const;

  // Sums of this draft are still of use here.
  bool is_summing(const Digest& draft) const { return summing_.is_at(draft); }

  const std::string& run_id() const { return region_.history.run_id(); }
  Round version() const { return region_.history.version(); }
  CommitRecord record(Round round) const { return region_.history.record(round); }
  // Of the open round, unless it is shortened, and how it came to that.
  std::uint32_t k() const { return region_.history.k_policy().k(); }
  const std::string& k_change() const { return region_.history.k_policy().change(); }
  bool pauses_for_money() const { return region_.history.k_policy().pauses(); }
  const EgressMeter& egress() const { return region_.history.k_policy().egress(); }
  // What the newest record says that each region, and this one, has paid.
  std::vector<EgressCost> agreed_egress() const;
  double agreed_egress_cost() const;
  // A region that lacks more than so many rounds makes nothing that still counts.
  Round rounds_kept() const { return region_.history.rounds_kept(); }
  Status status() const { return region_.report.status(); }  // as peers are told
  // Inner steps of a round up to the open one.
  std::uint32_t nominal_k(Round round) const { return region_.history.nominal_k(round); }
  // Nominal inner steps of the run up to the end of a round.
  std::uint64_t steps_after(Round round) const {
    return region_.history.schedule_step(round) + nominal_k(round);
  }
  const std::optional<Contribution>& contribution() const {
    return region_.contributions.newest_own();
  }
  const Membership& membership() const { return region_.agreement.members(); }
  // Regions whose address an operator changed since the log first named them.
  const std::set<std::string>& moved() const { return region_.history.moved(); }
  // Whether contributions to the open round are to be cut into shards.
  bool sharded() const { return region_.shards.sharded(); }
  const NamedTensors& tensors() const { return region_.worker.tensors(); }
  // Of the open round; none if this region has no part of the data yet.
  std::optional<DataShare> share() const { return region_.history.share(); }
  // Of the data that all regions must read, as this region's worker does; none: not known.
  const std::optional<DataDigest>& data() const { return region_.worker.data(); }
  const Raft& raft() const { return region_.agreement.raft(); }
  const std::optional<Applied>& applied() const { return region_.worker.applied(); }
  // What a worker that holds this version, and took so many steps since, can do without anybody;
  // none: nothing.
  std::optional<OrderContinue> steps_from(Round version, std::uint32_t taken) const {
    return orders_.steps_from(version, taken);
  }
  std::vector<inter::BlobId> wanted() const { return region_.fetcher.wanted(); }
  // One sentence on what this region waits for; empty while its worker is busy.
  std::string waiting_for(Time now) const {
    return diloco::waiting_for(region_, leader_, beginning_, data_check_, end_, now);
  }

 private:
  void start(Time now);
  void take_in(const Event& event);
  void settle();

  void on(const PeerUp& event);
  void on(const PeerDown& event);
  void on(const PeerSaid& event);
  void drop(const std::string& peer);
  void note_progress_of(const std::string& peer);
  void doubt(const std::string& peer, const std::string& what);
  void hear(const std::string& peer, const Status& status);
  void hear(const std::string& peer, const Diverged& diverged);
  void on(const BlobProgress& event);
  void on(const WorkerApplied& event);
  void on(const OperatorAsked& event);

  void apply_committed();
  void apply(const LogEntry& entry, Index index);
  void add_record(const CommitRecord& record, Index index);
  void replace_record(const CommitRecord& record, Index index);
  void note_budget(const CommitRecord& record);
  void lead();
  void fetch();

  Region region_;
  Beginning beginning_{region_};
  DataCheck data_check_{region_};
  SameWork same_work_{region_};
  OldCopy old_copy_{region_};
  Leader leader_{region_, beginning_};
  CatchUp catch_up_{region_};
  Exchange exchange_{region_, leader_, catch_up_};
  Summing summing_{region_, leader_};
  WorkerOrders orders_{region_, leader_, catch_up_, beginning_, data_check_};
  RunEnd end_{region_, leader_, catch_up_};
  std::set<std::string> budget_notes_;  // the ends of limits that were warned of
  bool started_ = false;
  Time now_{0};
};

}  // namespace causeway::diloco
