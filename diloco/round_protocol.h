// The round protocol of one coordinator: a pure state machine. Events and the time go in, actions
// come out; it does no I/O, reads no clock and draws no random number, so the same object runs
// under TLS, in memory and under virtual time. docs/rounds.md tells the story.
//
// - The worker's contribution is saved, announced to every peer and pushed (round_protocol.cc).
// - Whoever holds a payload tells the decider (round_protocol.cc).
// - The decider commits a record: appended to its ledger, then sent to all (decider.h).
// - Every region appends the record and asks for what it lacks (round_protocol.cc, catch_up.cc).
// - The worker applies record after record, or adopts a snapshot if too far behind (catch_up.cc).
// - Payloads that nobody can need any more are removed (catch_up.cc).
// - At the last version the decider waits for the others, then everybody ends (run_end.cc).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "diloco/decider.h"
#include "diloco/fetcher.h"
#include "diloco/messages.h"
#include "diloco/protocol_options.h"

namespace causeway::diloco {

// What is on disk when a coordinator starts.
struct PersistentState {
  std::string run_id;                        // empty: a joiner that has not met the decider yet
  std::vector<CommitRecord> records;         // of rounds 0, 1, ...
  std::optional<Contribution> contribution;  // this region's newest
  std::optional<Snapshot> snapshot;
  std::set<inter::BlobId> blobs;  // complete ones
};

// ---- Events ----
struct RunIdLearned {
  std::string run_id;
};
struct PeerUp {
  std::string peer;
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
struct WorkerAttached {
  Applied holds;
  bool has_lineage = false;
  std::string run_id;
};
struct WorkerLost {};
struct WorkerReady {};  // it asks what to do
struct WorkerContributed {
  Contribution contribution;
};  // its payload is on disk
struct WorkerApplied {
  Applied holds;
};
struct WorkerOffered {
  Snapshot snapshot;
};               // its blob is on disk
struct Tick {};  // time passed
using Event = std::variant<RunIdLearned, PeerUp, PeerDown, PeerSaid, BlobArrived, BlobProgress,
                           WorkerAttached, WorkerLost, WorkerReady, WorkerContributed,
                           WorkerApplied, WorkerOffered, Tick>;

// ---- Actions: to be done in order; a save is on disk before the next action is done ----
struct SendMessage {
  std::string peer;
  Message message;
};
struct PushBlob {
  std::string peer;
  inter::BlobId blob;
};
struct FetchBlob {
  std::string peer;
  inter::BlobId blob;
};
struct RemoveBlob {
  inter::BlobId blob;
};
struct SaveContribution {
  Contribution contribution;
};
struct SaveSnapshot {
  Snapshot snapshot;
};
struct AppendRecords {
  std::vector<CommitRecord> records;
};
// The worker may be told that it is attached. contributed: this region's contribution for the
// version it holds exists.
struct WelcomeWorker {
  std::string run_id;
  bool contributed = false;
};
struct OrderTrain {
  Round round = 0;
  std::uint32_t k = 0;
  std::uint64_t data_cursor = 0;
  std::uint64_t schedule_step = 0;  // nominal inner steps of all rounds before this one
};
struct OrderApply {
  CommitRecord record;
};
struct OrderRestore {
  Snapshot snapshot;
};
struct OrderFinish {
  Round version = 0;
};
struct EndRun {
  int exit_code = 0;
  std::string message;
};
struct Note {
  enum class Severity { info, warning, error } severity;
  std::string text;
};
using Action = std::variant<SendMessage, PushBlob, FetchBlob, RemoveBlob, SaveContribution,
                            SaveSnapshot, AppendRecords, WelcomeWorker, OrderTrain, OrderApply,
                            OrderRestore, OrderFinish, EndRun, Note>;

class RoundProtocol {
 public:
  RoundProtocol(ProtocolOptions options, PersistentState state);

  std::vector<Action> handle(const Event& event, Time now);
  // When a Tick is needed at the latest; none: only when something happens.
  std::optional<Time> next_deadline() const;

  const std::string& run_id() const { return run_id_; }
  Round version() const { return records_.size(); }
  const CommitRecord& record(Round round) const { return records_.at(round); }
  const std::optional<Contribution>& contribution() const { return own_; }
  const std::optional<Applied>& applied() const { return applied_; }
  std::vector<inter::BlobId> wanted() const { return fetcher_.wanted(); }
  bool ended() const { return ended_; }
  // One sentence on what this region waits for; empty while its worker is busy.
  std::string waiting_for(Time now) const;

 private:
  struct Peer {
    std::optional<Status> status;  // since this process started
  };
  struct Worker {
    bool has_lineage = false;
    std::string run_id;
    bool welcomed = false;
    bool ready = false;
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
  void on(const Tick&) {}

  void on_message(const std::string& peer, const Status& status);
  void on_message(const std::string& peer, const Holding& holding);
  void on_message(const std::string& peer, const Records& records);
  void on_message(const std::string& peer, const NeedRecords& need);
  void on_message(const std::string& peer, const Diverged& diverged);
  void on_message(const std::string& peer, const Finished& finished);

  // What follows from the new state, whatever the event was.
  void settle();
  void decide();
  void append(std::vector<CommitRecord> records);
  void after_append(const CommitRecord& record);
  bool acceptable(const CommitRecord& record);
  void report_holding(const Contribution& contribution, std::uint64_t received_bytes);
  void check_state();
  void end(int exit_code, std::string message);
  void note(Note::Severity severity, std::string text);
  void send(const std::string& peer, Message message);
  void broadcast(const Message& message);
  bool is_decider() const { return options_.self == options_.decider; }

  // catch_up.cc
  void ask_for_records();
  std::optional<std::string> furthest_peer() const;
  bool behind_a_peer() const;
  Round first_missing(Round from) const;
  bool all_held(const CommitRecord& record) const;
  bool can_replay(Round from) const;
  std::optional<Snapshot> choose_snapshot() const;
  std::map<inter::BlobId, Fetcher::Want> needed() const;
  void refresh_wants();
  void instruct();
  void welcome();
  void catch_up_worker();
  std::uint32_t nominal_k(Round round) const;
  std::uint64_t schedule_step() const;
  std::uint64_t data_cursor() const;
  bool referenced(const inter::BlobId& blob) const;
  void discard(const inter::BlobId& blob);
  void release_old();
  Round payloads_from() const;
  Status status() const;
  void publish();
  std::string catching_up_sentence() const;

  // run_end.cc
  void check_end();
  void check_end_as_decider();
  void check_end_as_follower();
  std::set<std::string> unfinished() const;
  bool final_states_agree();
  std::optional<Time> end_deadline() const;
  Time linger() const;
  bool worker_done() const;

  ProtocolOptions options_;
  std::string run_id_;
  std::vector<CommitRecord> records_;
  std::optional<Contribution> own_;
  std::optional<Snapshot> snapshot_;
  std::set<inter::BlobId> blobs_;
  std::map<inter::BlobId, Round>
      unclaimed_;       // blobs that no record or contribution names yet: version at arrival
  Round released_ = 0;  // payloads of rounds before this one are gone

  std::optional<Decider> decider_;
  Fetcher fetcher_;
  std::map<std::string, Peer> peers_;
  std::set<std::string> up_;
  std::map<std::string, Contribution>
      contributions_;  // by region, each its newest, rounds >= version()
  std::map<inter::BlobId, Time> progress_reported_at_;
  std::optional<Applied> applied_;  // by this region's worker; kept when it is lost
  std::optional<Worker> worker_;
  std::optional<Snapshot> target_;  // a peer's snapshot that the worker will adopt

  std::optional<Status> published_;
  Time published_at_{0};
  std::uint64_t received_bytes_ = 0;
  std::optional<Time> records_asked_at_;
  Round records_asked_from_ = 0;

  // The end of the run.
  Time end_progress_at_{0};          // a region that is not done yet last moved
  std::optional<Time> finished_at_;  // the decider said that the run is over
  Time decider_seen_at_{0};
  bool finish_told_ = false;

  bool started_ = false;
  Time now_{0};
  std::vector<Action> actions_;
  bool ended_ = false;
};

}  // namespace causeway::diloco
