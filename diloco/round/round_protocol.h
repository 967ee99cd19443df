// The round protocol of one coordinator: a pure state machine. Events and the time go in, actions
// come out; it does no I/O, reads no clock and draws no random number but from its own seed, so the
// same object runs under TLS, in memory and under virtual time. docs/rounds.md tells the story.
//
// - The worker's contribution is saved, announced to every peer and pushed (round_protocol.cc).
// - Whoever holds a payload tells the leader (round_protocol.cc).
// - The leader proposes a record; Raft commits it; every region appends it (agreement.cc).
// - Every region fetches what it lacks; its worker applies record after record, or adopts a
//   snapshot if too far behind or of another state (catch_up.cc).
// - Payloads that nobody can need any more are removed (catch_up.cc).
// - At the last version the leader waits for the others, then everybody ends (run_end.cc).
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "diloco/log/messages.h"
#include "diloco/log/records.h"
#include "diloco/region/action.h"
#include "diloco/region/data_plan.h"
#include "diloco/region/fetcher.h"
#include "diloco/region/protocol_options.h"
#include "diloco/round/decider.h"
#include "diloco/round/event.h"

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

class RoundProtocol {
 public:
  RoundProtocol(ProtocolOptions options, PersistentState state);
  RoundProtocol(const RoundProtocol&) = delete;
  RoundProtocol& operator=(const RoundProtocol&) = delete;

  std::vector<Action> handle(const Event& event, Time now);
  // When a Tick is needed at the latest; none: only when something happens.
  std::optional<Time> next_deadline() const;

  const std::string& run_id() const { return run_id_; }
  Round version() const { return records_.size(); }
  // Every round is committed.
  bool over() const;
  CommitRecord record(Round round) const { return records_[round]; }
  // Of the open round, unless it is shortened, and how it came to that.
  std::uint32_t k() const { return k_policy_.k(); }
  const std::string& k_change() const { return k_policy_.change(); }
  std::uint32_t nominal_k(Round round) const;  // inner steps of a round up to the open one
  const std::optional<Contribution>& contribution() const { return newest_own_; }
  const Membership& membership() const { return raft_.membership(); }
  // Of the open round; none if this region has no part of the data yet.
  std::optional<DataShare> share() const { return data_plan_.share(); }
  const Raft& raft() const { return raft_; }
  const std::optional<Applied>& applied() const { return applied_; }
  std::vector<inter::BlobId> wanted() const { return fetcher_.wanted(); }
  bool ended() const { return ended_; }
  // One sentence on what this region waits for; empty while its worker is busy.
  std::string waiting_for(Time now) const;

 private:
  static constexpr Time kProgressReportInterval = std::chrono::seconds{1};

  struct Peer {
    std::optional<Status> status;  // since this process started
    bool heard = false;            // since the link is up
    std::string incarnation;       // while it is up
  };
  struct Worker {
    bool has_lineage = false;
    std::string run_id;
    bool welcomed = false;
    bool ready = false;
    bool continuing = false;  // may be called back
    bool continued = false;   // did steps since it contributed that nobody was told of
  };

  void on(const RunIdLearned& event);
  void on(const PeerUp& event);
  void on(const PeerDown& event);
  void on(const PeerSaid& event);
  void on(const BlobArrived& event);
  void on(const BlobProgress& event);
  void on(const WorkerAttached& event);
  void on(const WorkerLost& event);
  void on(const WorkerReady& event);
  void on(const WorkerContributed& event);
  void on(const WorkerApplied& event);
  void on(const WorkerOffered& event);
  void on(const OperatorAsked& event);
  void on(const Tick&) {}

  void on_message(const std::string& peer, const Status& status);
  void on_message(const std::string& peer, const Holding& holding);
  void on_message(const std::string& peer, const RaftMessage& message);
  void on_message(const std::string& peer, const Diverged& diverged);
  void on_message(const std::string& peer, const ChangeMember& change);
  void on_message(const std::string& peer, const Finished& finished);

  // What follows from the new state, whatever the event was.
  void settle();
  bool is_open(const Contribution& contribution) const;
  bool judge(const std::string& peer, const Contribution& contribution);
  bool displaces_older(const Contribution& contribution);
  void report_holding(const Contribution& contribution, std::uint64_t received_bytes);
  std::uint64_t held_bytes(const Contribution& contribution) const;
  void time_outcome();
  void stamp(Contribution& contribution);
  void save_own();
  void confirm_snapshot();
  void confirm_final_snapshot();
  void end(int exit_code, std::string message);
  void note(Note::Severity severity, std::string text);
  void send(const std::string& peer, Message message);
  void broadcast(const Message& message);

  // agreement.cc
  void restore_log();
  void append(Index index);
  void drain_raft();
  void apply_entry(const LogEntry& entry, Index index);
  void add_record(const CommitRecord& record, Index index);
  void settle_contributions(const CommitRecord& record);
  void follow_leader();
  void lead();
  void start_leading();
  void decide();
  void tend_membership();
  bool change_asked_member();
  bool leaves_too_few(const std::string& region, const Membership& changed);
  void request(const ChangeMember& change);
  bool leads() const { return decider_.has_value(); }
  bool cut_off() const;
  std::string no_leader_sentence() const;
  std::string votes_sentence() const;

  // catch_up.cc
  bool behind_a_peer() const;
  Round first_missing(Round from) const;
  bool all_held(const CommitRecord& record) const;
  bool can_replay(Round from) const;
  const std::optional<Origin>& origin() const { return raft_.membership().origin; }
  bool trusted(const Snapshot& snapshot) const;
  bool helps(const Snapshot& snapshot) const;
  std::optional<Snapshot> choose_snapshot() const;
  std::string holder_of(const Participant& participant, Round round) const;
  Round replay_from() const;
  Round rounds_fetched() const;
  std::map<inter::BlobId, Fetcher::Want> needed() const;
  void refresh_wants();
  void check_state();
  void check_origin();
  void distrust_own_state();
  void instruct();
  void instruct_idle();
  void call_back();
  void welcome();
  void catch_up_worker();
  void restore_worker();
  // Samples of a contribution that expired were used all the same: its work is in the worker's
  // residual.
  std::uint64_t data_cursor() const {
    return std::max(newest_own_ ? newest_own_->data_cursor : 0, data_plan_.cursor());
  }
  std::uint64_t schedule_step() const { return steps_before_.back(); }
  std::uint32_t next_k() const;
  std::uint32_t nominal_next_k() const;
  std::uint64_t steps_since_exchange() const;
  bool referenced(const inter::BlobId& blob) const;
  void discard(const inter::BlobId& blob);
  Round rounds_kept() const;
  void release_old();
  bool crowded() const;
  bool held_elsewhere(Round round) const;
  void release_later();
  void forget_old();
  Round payloads_from() const;
  Status status() const;
  void publish();
  std::string catching_up_sentence() const;

  // run_end.cc
  void count_barren(const CommitRecord& record);
  void check_barren();
  bool stuck() const;
  bool may_help(const Status& status) const;
  bool run_is_stuck() const;
  std::optional<Time> stuck_deadline() const;
  void check_stuck();
  void check_removed();
  void check_end();
  void check_end_as_leader();
  void check_end_as_follower();
  std::set<std::string> unfinished() const;
  bool final_states_agree();
  void end_well();
  std::optional<Time> end_deadline() const;
  Time linger() const;
  bool worker_done() const;

  ProtocolOptions options_;
  std::string run_id_;
  Raft raft_;
  Records records_;
  DataPlan data_plan_;
  KPolicy k_policy_;
  Tail<Digest> heads_;  // of the chain over the records; heads_[v] after v of them
  // Nominal inner steps of all rounds before version v: where the inner learning rate's schedule
  // stands in all regions, whatever steps each took.
  Tail<std::uint64_t> steps_before_;
  Round stepless_ = 0;  // rounds after the last step
  std::optional<Contribution> newest_own_;
  // How long rounds take here: when the worker contributed last, and for how long the outcome was
  // under way.
  struct Pending {
    Round round = 0;
    Time since{0};
    std::optional<Time> took{};
  };
  std::optional<Pending> pending_;
  std::optional<Snapshot> snapshot_;  // of an agreed state
  std::optional<Snapshot> offered_;   // the worker's newest, not confirmed by a record yet
  std::set<inter::BlobId> blobs_;
  // Blobs that no record or contribution names yet: version at arrival.
  std::map<inter::BlobId, Round> unclaimed_;
  Round released_ = 0;  // payloads of rounds before this one are gone

  std::optional<Decider> decider_;   // of the leader
  std::optional<Round> proposed_;    // by this leader; not committed yet
  std::vector<ChangeMember> asked_;  // of this leader
  std::optional<std::string> told_leader_;
  bool was_member_ = false;
  Time leader_seen_at_{0};
  Fetcher fetcher_;
  std::map<std::string, Peer> peers_;
  std::set<std::string> up_;
  // Neither listed nor expired so far.
  std::map<ContributionKey, Contribution> contributions_;
  // What peers said that they hold of them, in case this region comes to lead.
  std::map<ContributionKey, std::map<std::string, std::uint64_t>> peers_hold_;
  std::map<inter::BlobId, Time> progress_reported_at_;
  std::optional<Applied> applied_;  // by this region's worker; kept when it is lost
  std::optional<Worker> worker_;
  std::optional<Snapshot> target_;     // a peer's snapshot that the worker will adopt
  std::optional<Applied> distrusted_;  // what the worker held when its state was found to be wrong
  std::map<Round, int> heals_;         // by version: how often
  std::uint32_t barren_ = 0;           // rounds in a row that listed nothing
  std::optional<Time> barren_until_;   // if there were too many: when the run ends
  std::optional<Time> stuck_since_;    // what most regions lack is on no disk any more

  std::optional<Status> published_;
  Time published_at_{0};
  std::uint64_t received_bytes_ = 0;

  // The end of the run.
  Time end_progress_at_{0};          // a region that is not done yet last moved
  std::optional<Time> finished_at_;  // the leader said that the run is over
  bool finish_told_ = false;

  bool started_ = false;
  Time now_{0};
  std::vector<Action> actions_;
  bool ended_ = false;
};

}  // namespace causeway::diloco
