// What the round protocol wants done. Actions are done in order: a save is on disk before the next
// action is done.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "diloco/log/messages.h"
#include "diloco/maths/train.h"

namespace causeway::diloco {

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
// Asked of the peer or pushed by it, and no longer needed.
struct ForgoBlob {
  std::string peer;
  inter::BlobId blob;
};
struct RemoveBlob {
  inter::BlobId blob;
  bool listed = false;  // a payload that counted: worth keeping where everything is kept
};
struct SaveContributions {
  std::vector<Contribution> contributions;
};
// Adds up one shard of the contributions that a draft lists; input i is participant i's.
// ShardSummed answers, or BlobLost and ShardNotSummed.
struct SumShard {
  CommitRecord draft;
  std::uint32_t shard = 0;
  std::vector<inter::BlobId> inputs;
};
struct SaveSnapshot {
  Snapshot snapshot;
};
// Its blob is here, from a peer: whether it is what it was said to be. SnapshotChecked answers, or
// BlobLost.
struct CheckSnapshot {
  Snapshot snapshot;
};
// What this region has promised, and the log from first_index on.
struct SaveRaft {
  Term term = 0;
  std::string vote;
  Index first_index = 1;
  std::vector<LogEntry> entries;
};
// Committed: the next entries of the ledger.
struct AppendLedger {
  std::vector<LogEntry> entries;
};
// Who belongs to the run from now on: whom to keep links to.
struct UpdateMembers {
  Membership membership;
};
// The worker may be told that it is attached. contributed: this region's contribution for the
// version it holds exists.
struct WelcomeWorker {
  std::string run_id;
  bool contributed = false;
  bool offers_initial = false;  // a snapshot of version 0
  Round snapshot_from = 0;      // the newest that it offered, again; 0: none
};
using OrderTrain = Train;
using OrderContinue = Continue;
struct OrderCallBack {};  // from a Continue that may still be under way: there is something to do
// What it did so becomes the next part of its contribution to the round.
struct OrderCollect {
  Round round = 0;
};
struct OrderApply {
  CommitRecord record;
};
struct OrderRestore {
  Snapshot snapshot;  // without a blob: the initial weights, which every worker can make
};
// To be on disk before the worker hears of it: it may never come back.
struct OrderFinish {
  Round version = 0;
  Digest state{};
};
struct EndRun {
  int exit_code = 0;
  std::string message;
};
struct Note {
  enum class Severity { info, warning, error } severity;
  std::string text;
  std::string event = {};  // of events.jsonl, which gets it too; empty: an error is "error"
};
using Action =
    std::variant<SendMessage, PushBlob, FetchBlob, ForgoBlob, RemoveBlob, SaveContributions,
                 SumShard, SaveSnapshot, CheckSnapshot, SaveRaft, AppendLedger, UpdateMembers,
                 WelcomeWorker, OrderTrain, OrderContinue, OrderCallBack, OrderCollect, OrderApply,
                 OrderRestore, OrderFinish, EndRun, Note>;

// A visitor of actions, events and messages: one lambda for each alternative, or for each that is
// one of several.
template <typename... Ones>
struct Cases : Ones... {
  using Ones::operator()...;
};
template <typename... Ones>
Cases(Ones...) -> Cases<Ones...>;  // clang 14 needs to be told
template <typename T, typename... Ones>
concept OneOf = (std::same_as<T, Ones> || ...);

// What is to be done, in order: the machines of a region put actions here, the protocol hands them
// out.
class Outbox {
 public:
  void push(Action action) { actions_.push_back(std::move(action)); }
  void note(Note::Severity severity, std::string text) { push(Note{severity, std::move(text)}); }

  // The run ends here; the first word on why counts.
  void end(int exit_code, std::string message) {
    if (ended_) return;
    ended_ = true;
    push(EndRun{exit_code, std::move(message)});
  }
  bool ended() const { return ended_; }

  std::vector<Action> take() { return std::exchange(actions_, {}); }

 private:
  std::vector<Action> actions_;
  bool ended_ = false;
};

}  // namespace causeway::diloco
