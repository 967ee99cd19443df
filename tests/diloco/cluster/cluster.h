// A run in memory and in virtual time: the real RoundProtocol of every region, a network that
// delays, loses and cuts, disks that survive crashes, and workers that apply instantly and hash
// what they applied. One seed, one history. Whatever a run must never do throws Violation as soon
// as it happens.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "diloco/coordinator/greeting.h"
#include "diloco/round/round_protocol.h"
#include "tests/diloco/cluster/cluster_links.h"
#include "tests/diloco/cluster/history.h"

namespace causeway::diloco::testing {

struct ClusterOptions {
  std::uint64_t seed = 1;
  std::vector<std::string> regions{"a", "b", "c"};
  Round rounds = 12;  // with the K of the start
  KPolicyOptions k_policy{};
  std::string witness{};  // one of the regions
  bool forked = false;    // begins with another run's snapshot, which the first region has
  Round staleness_max = 2;
  std::size_t contributions_min = 0;  // 0: most, witnesses counted
  Time election = std::chrono::seconds{2};
  Time grace_min = std::chrono::seconds{2}, grace_max = std::chrono::seconds{20};
  std::uint32_t fragments = 1;
  std::uint32_t overlap_steps = 0;  // of the 4 of a round
  PlantedBug planted = PlantedBug::none;
  // One of the regions, not the first: a key that is used to lie (cluster_liar.cc). No process of
  // the protocol runs there. All regions vote from the start.
  std::string liar{};
  Round checkpoint_rounds = 3;
  Time compute_min = std::chrono::milliseconds{2'000};
  Time compute_max = std::chrono::milliseconds{4'000};
  std::map<std::string, int> slowness{};    // factor on compute time
  std::map<std::string, Time> apply_min{};  // how long a record takes its worker
  // Of a region's disk: what a worker makes waits for room, and what peers send beyond it does not
  // arrive. 0: there is room for everything.
  std::uint64_t spool_bytes = 0;
  std::uint64_t payload_bytes_min = 500, payload_bytes_max = 4'499;
  std::size_t shards = 0;            // of a payload, in sharded rounds; 0: no round is
  double price = 0;                  // of a byte of a payload, to whoever sends it
  double unix_s_at_zero = 0;         // what clocks on walls show when the run begins
  double push_loss = 0.05;           // pushes of which nothing arrives
  double replayed = 0;               // messages that come once more, much later
  bool counts_steps = false;         // workers tell how many steps they took
  double crash_between_actions = 0;  // per handled event
  Time crashes_end = Time::max();    // from then on none does
  // This region's coordinator dies before its n-th action, once.
  std::optional<std::pair<std::string, std::uint64_t>> crash_at{};
  // Payloads are bytes on disks and travel as inter moves them.
  bool real_links = false;
  bool detours = true;            // where a direct link is gone
  std::ostream* trace = nullptr;  // every event and what came of it
};

class Cluster {
 public:
  explicit Cluster(ClusterOptions options);
  ~Cluster();

  Time now() const { return now_; }
  void run_until(Time time);
  // Runs until every region's coordinator ended or `limit`; true if all ended with exit code 0.
  bool finish(Time limit);

  void kill_coordinator(const std::string& region);  // its worker lives on
  void kill_worker(const std::string& region);       // it restarts from its checkpoint
  void kill_region(const std::string& region);
  void wipe(const std::string& region);  // kill, and lose the disk
  // Copies its disk as it is now; kills it, and puts the copy in the place of its disk.
  void keep_copy(const std::string& region);
  void put_back(const std::string& region);
  // Kill its coordinator, and flip, tear or cut bytes of ledger/records or ledger/raft.
  void damage(const std::string& region);
  // Its disk spoils something that is in its spool, which is seen when it is handed on.
  void damage_payload(const std::string& region);
  // As soon as another record is committed, every copy of a payload that it lists is spoilt.
  void lose_next_payload() { loses_next_ = true; }
  void lose_spool(const std::string& region);   // kill, and lose payloads and snapshots alone
  void start(const std::string& region);        // what is not running
  void start_again(const std::string& region);  // although the run had ended there
  void cut(const std::string& a, const std::string& b);
  void sever(const std::string& a, const std::string& b);            // cut, and never healed
  void cut_one_way(const std::string& from, const std::string& to);  // until the link notices
  void pause(const std::string& region, Time duration);              // SIGSTOP of its coordinator
  void jump_clock(const std::string& region, Time by);         // forward, as after a suspension
  void set_wall_clock(const std::string& region, Time ahead);  // of the others'; below 0: behind
  void slow_down(const std::string& from, Time per_chunk);     // what it sends of payloads
  void ask(const std::string& region, const ChangeMember& change);  // an operator
  void add(const std::string& region);  // an empty disk that knows the run's other members
  void heal();                          // every link that is not severed, every process
  void corrupt_state(const std::string& region);  // the worker's state goes wrong

  bool alive(const std::string& region) const;
  // No other disk knows yet that there is a second vote: without this one there is no run.
  bool has_the_only_vote(const std::string& region) const;
  bool honest(const std::string& region) const { return region != options_.liar; }
  const std::vector<CommitRecord>& history() const { return history_.records(); }
  std::optional<std::string> leader() const;  // that leads; the one of the highest term
  Term term() const;                          // highest
  const Membership& membership() const { return history_.membership(); }  // committed
  // Of the whole run: with other K than at the start, as many as its steps take; none if they are
  // not all committed.
  std::optional<Round> rounds_of_run() const;
  Round version(const std::string& region) const;  // records on disk
  Applied worker_state(const std::string& region) const;
  // That its worker took since it holds that, contributed or not.
  std::uint64_t steps_taken(const std::string& region) const;
  std::optional<EndRun> outcome(const std::string& region) const;
  std::size_t restores() const { return restores_; }
  std::size_t refusals() const { return refusals_; }
  std::size_t withdrawals() const { return history_.revision(); }
  std::size_t crashes() const { return crashes_; }  // by chance
  double paid() const;                              // by all regions, really
  // Of payloads and snapshots, to all others.
  std::uint64_t sent_bytes(const std::string& region) const;
  std::uint64_t chunks_sent() const { return real_ ? real_->chunks_sent() : 0; }
  Index entries_in_memory(const std::string& region) const;  // of the log, of one that is alive
  std::size_t holders(const inter::BlobId& blob) const;      // live regions with the whole blob
  std::string describe() const;
  std::mt19937_64& random() { return random_; }
  Time random_time(Time min, Time max);

 private:
  struct Worker {
    bool running = false;
    bool continuing = false;       // may be called back
    std::uint64_t extra_from = 0;  // samples since it contributed: their first
    std::uint64_t extra = 0;
    bool may_have_more = false;        // as its coordinator knows, until it is collected
    std::uint32_t ahead = 0;           // steps of the next round that are done
    std::uint32_t steps = 0;           // since the version of `holds`
    std::optional<Contribution> made;  // to the round of `holds`
    bool finished = false;
    Applied holds;
    bool has_lineage = false;
    Applied checkpoint;
    bool checkpoint_has_lineage = false;
    std::optional<Applied> offered;  // the newest snapshot of this process
    std::uint64_t life = 0;          // changes when it dies: events of an earlier life are void
    std::uint64_t session = 0;       // changes with every attachment
    std::uint64_t heard = 0;         // session that the coordinator speaks to
  };
  struct DiskLog : CommittedLog {
    std::vector<LogEntry> read(Index first, std::size_t count) const override;
    const RaftState* raft = nullptr;
  };
  struct Node {
    PersistentState disk;
    DiskLog ledger;
    std::string incarnation;
    std::string run_id_at_start;
    Time clock_offset{0}, wall_ahead{0};
    Time paused_until{0};
    std::uint64_t actions = 0;  // done so far
    std::vector<Event> held;    // while it is paused
    Time per_chunk{0};
    std::map<inter::BlobId, std::uint64_t> partial;
    std::set<inter::BlobId> damaged;           // on its disk, and not what they were
    std::set<inter::BlobId> spoilt;            // partial ones with bytes of such a copy
    std::map<inter::BlobId, Round> stored_at;  // version here, since this process started
    Round checked = 0;                         // version of which its memory was checked last
    Index forgettable = 0;                     // entries before this one, then
    std::unique_ptr<RoundProtocol> protocol;
    std::optional<EndRun> outcome;
    std::optional<Time> tick_at;
    std::uint64_t life = 0;
    std::uint64_t sent_bytes = 0, sent_before = 0;  // of payloads; by earlier processes
    OwnEgress egress;
    Worker worker;
  };
  struct Link {
    bool cut = false;
    bool severed = false;
    std::string via;  // the third region that carries messages, while there is no link
    bool seeking = false;
    bool established = false;
    bool connecting = false;
    std::uint64_t epoch = 0;
    std::set<std::string> deaf_to;              // what this one sends does not arrive
    std::map<std::string, bool> up;             // as each end sees it
    std::map<std::string, Time> last_arrival;   // by receiver: messages do not overtake each other
    std::map<std::string, std::size_t> queued;  // under way, by receiver
  };

  struct Copy {
    PersistentState disk;
    Applied checkpoint;
    bool checkpoint_has_lineage = false;
    std::map<inter::BlobId, std::uint64_t> partial;
    std::set<inter::BlobId> damaged;
  };

  Pace pace() const;
  void at(Time time, std::function<void()> action);
  bool step(Time limit);
  void deliver(const std::string& region, const Event& event);
  void execute(const std::string& region, const Action& action);
  void push(const std::string& region, const PushBlob& action);
  void fetch(const std::string& region, const FetchBlob& action);
  void forgo(const std::string& region, const ForgoBlob& action);
  void remove(const std::string& region, const inter::BlobId& blob);
  void trace(const std::string& region, const Event& event, const std::vector<Action>& actions);
  void wake(const std::string& region);
  void schedule_tick(const std::string& region);
  Link& link(const std::string& a, const std::string& b);
  void connect(const std::string& a, const std::string& b);
  void meet(const std::string& a, const std::string& b);
  Greeting greeting(const std::string& region) const;
  bool carries(const std::string& from, const std::string& to) const;
  std::vector<std::string> carriers(const std::string& a, const std::string& b) const;
  void seek_detours();
  void seek_detour(const std::string& a, const std::string& b);
  void drop_detours_over(const std::string& a, const std::string& b);
  void lose(const std::string& a, const std::string& b);
  void disconnect(const std::string& a, const std::string& b);
  void drop_links(const std::string& region);
  void send(const std::string& from, const std::string& to, const Message& message);
  void overhear(const Message& message);
  void lie();
  Message make_lie(const std::string& to);
  Message make_shard_lie(const std::string& to);
  RaftMessage make_raft_lie(const std::string& to);
  void announce_wrong(Status& status, const RoundProtocol& told);
  void pass_off(Contribution& made, Round round);
  Holding make_holding_lie(const std::string& to);
  std::uint64_t near(std::uint64_t value);
  Digest any_digest(const Digest& known);
  void deliver_lie(const std::string& to, const std::string& bytes);
  void transfer(const std::string& from, const std::string& to, const inter::BlobId& blob,
                std::uint64_t offset);
  void arrive(const std::string& from, const std::string& to, const inter::BlobId& blob,
              std::uint64_t offset, std::uint64_t epoch);
  std::uint64_t room(const std::string& region) const;
  std::set<inter::BlobId> begun(const std::string& region) const;
  bool fits(const std::string& region, const inter::BlobId& blob) const;
  void wait_for_room(const std::string& region, const Contribution& contribution, Time ahead,
                     std::uint64_t bytes);
  void store(const std::string& region, const inter::BlobId& blob);
  void refuse_spoilt(const std::string& from, const std::string& to, const inter::BlobId& blob);
  bool hands_over(const std::string& region, const std::vector<inter::BlobId>& blobs);
  void find_damage(const std::string& region, const inter::BlobId& blob);
  void lose(const std::string& region, const inter::BlobId& blob);
  void lose_payload_of(const CommitRecord& record);
  // A worker's bytes, on its region's disk.
  inter::BlobId keep(const std::string& region, const std::string& content, std::uint64_t size);
  void begin_real_links();
  void read_disk(const std::string& region);
  void found(Node& node);
  static PersistentState on_start(Node& node);
  void save_raft(Node& node, const SaveRaft& save);
  void append(const std::string& region, const std::vector<LogEntry>& entries);
  void append_torn(const std::string& region, const AppendLedger& append);
  History::Evidence evidence(const std::string& region, Index index, const LogEntry& entry) const;
  Round rounds_kept() const;
  Round kept_from(const std::string& region) const;
  void check_memory(const std::string& region);
  void check_spool(const std::string& region) const;
  void attach_worker(const std::string& region);
  void train(const std::string& region, const OrderTrain& order);
  void contribute(const std::string& region, Contribution contribution, Time ahead);
  void hand_over(const std::string& region, const Contribution& contribution, Time ahead);
  void hand_over_again(const std::string& region);
  void say_ready(const std::string& region);
  void go_on(const std::string& region, const OrderContinue& order);
  void call_back(const std::string& region);
  void collect(const std::string& region, Round round);
  Time compute_time(const std::string& region);
  double egress_cost(const std::string& region);
  void apply(const std::string& region, const OrderApply& order);
  bool holds_all(const std::string& region, const std::vector<inter::BlobId>& blobs) const;
  std::vector<inter::BlobId> keep_shards(const std::string& region, const std::string& content,
                                         std::uint64_t bytes);
  void sum(const std::string& region, const SumShard& order);
  void restore(const std::string& region, const OrderRestore& order);
  void check(const std::string& region, const Snapshot& snapshot);
  void offer_snapshot(const std::string& region, const Applied& holds);
  void after_apply(const std::string& region, Applied holds);
  void later_in_session(const std::string& region, Time delay, std::function<void()> action);
  void die(const std::string& region);

  ClusterOptions options_;
  std::unique_ptr<ClusterLinks> real_;
  std::mt19937_64 random_;
  Time now_{0};
  std::uint64_t sequence_ = 0;
  std::map<std::pair<Time, std::uint64_t>, std::function<void()>> queue_;
  std::map<std::string, Node> nodes_;
  std::map<std::pair<std::string, std::string>, Link> links_;
  History history_;
  std::vector<RaftState> lost_logs_;  // of wiped disks, which had acknowledged them
  std::vector<Message> overheard_;    // by the liar
  std::map<std::string, Copy> copies_;
  std::map<inter::BlobId, std::set<std::string>> stored_;  // ever, and not removed since
  std::uint64_t incarnations_ = 0;
  std::size_t restores_ = 0;
  std::size_t refusals_ = 0;                   // of what was announced as a snapshot
  std::map<inter::BlobId, Digest> snapshots_;  // what was offered by workers that do not lie
  std::size_t crashes_ = 0;
  bool loses_next_ = false;
};

}  // namespace causeway::diloco::testing
