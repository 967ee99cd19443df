#include "diloco/round/round_protocol.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "diloco/maths/hash_chain.h"

namespace causeway::diloco {
namespace {

RaftOptions raft_options(const ProtocolOptions& options) {
  return {.self = options.self,
          .incarnation = options.incarnation,
          .heartbeat = options.heartbeat,
          .election = options.election,
          .seed = options.seed,
          .planted = options.planted};
}

}  // namespace

RoundProtocol::RoundProtocol(ProtocolOptions options, PersistentState state)
    : options_(std::move(options)),
      run_id_(std::move(state.run_id)),
      raft_(raft_options(options_), std::move(state.raft)),
      records_(raft_.log()),
      data_plan_(options_.self),
      k_policy_(options_.k_policy, options_.pace.k),
      snapshot_(std::move(state.snapshot)),
      blobs_(std::move(state.blobs)) {
  steps_before_.push(0);
  restore_log();
  if (state.finished && state.finished->version == version()) applied_ = state.finished;
  if (snapshot_ && !blobs_.contains(snapshot_->blob)) snapshot_.reset();
  for (const Contribution& own : state.contributions) {
    if (!newest_own_ || newest_own_->round <= own.round) newest_own_ = own;
    const bool kept = own.sits_out || blobs_.contains(own.payload);
    if (kept && is_open(own)) contributions_[key_of(own)] = own;
  }
  const auto none_held = [this](const CommitRecord& record) {
    return std::ranges::none_of(record.participants, [this](const Participant& participant) {
      return blobs_.contains(participant.payload);
    });
  };
  while (released_ < version() && none_held(records_[released_])) ++released_;
  for (const inter::BlobId& blob : blobs_) {
    if (!referenced(blob)) unclaimed_[blob] = version();
  }
}

std::vector<Action> RoundProtocol::handle(const Event& event, Time now) {
  assert(now >= now_);
  if (!started_) leader_seen_at_ = end_progress_at_ = now;
  started_ = true;
  now_ = now;
  actions_.clear();
  forget_old();  // what earlier calls gave to be done is on disk
  if (!ended_) std::visit([this](const auto& body) { on(body); }, event);
  if (!ended_) settle();
  return std::exchange(actions_, {});
}

std::optional<Time> RoundProtocol::next_deadline() const {
  std::optional<Time> next;
  // What is already due was looked at in the last event and waits for something else.
  const auto consider = [this, &next](std::optional<Time> at) {
    if (at && *at > now_ && (!next || *at < *next)) next = at;
  };
  if (ended_) return next;
  consider(raft_.next_deadline());
  if (decider_) consider(decider_->deadline());
  if (!raft_.leader()) consider(leader_seen_at_ + 4 * options_.election);
  if (!up_.empty()) consider(fetcher_.next_deadline());
  if (published_ && *published_ != status()) consider(published_at_ + kProgressReportInterval);
  consider(end_deadline());
  consider(barren_until_);
  consider(stuck_deadline());
  return next;
}

void RoundProtocol::settle() {
  welcome();
  raft_.tick(now_);
  drain_raft();
  lead();
  follow_leader();
  if (!ended_) check_removed();
  if (ended_) return;
  time_outcome();
  check_state();
  release_later();
  refresh_wants();
  release_old();
  instruct();
  publish();
  check_end();
}

// ---- Links ----

void RoundProtocol::on(const RunIdLearned& event) {
  assert(run_id_.empty());
  run_id_ = event.run_id;
  heads_.push(chain_start(run_id_));
}

void RoundProtocol::on(const PeerUp& event) {
  peers_[event.peer].incarnation = event.incarnation;
  peers_[event.peer].heard = false;
  up_.insert(event.peer);
  end_progress_at_ = now_;
  for (auto& [key, held] : peers_hold_) held.erase(event.peer);  // it says so anew
  raft_.on_peer_up(event.peer, event.incarnation, now_);
  if (decider_) decider_->set_up(event.peer, true);
  fetcher_.on_peer_up(event.peer, now_);

  // Whatever was said before may not have arrived.
  send(event.peer, status());
  for (const auto& [key, contribution] : contributions_) {
    if (key.region != options_.self && raft_.leader() != event.peer) continue;
    send(event.peer, Holding{contribution, held_bytes(contribution), false});
  }
  if (leads() && finished_at_) send(event.peer, Finished{});
}

void RoundProtocol::on(const PeerDown& event) {
  if (up_.erase(event.peer) == 0) return;
  peers_[event.peer].incarnation.clear();
  raft_.on_peer_down(event.peer, now_);
  if (decider_) decider_->set_up(event.peer, false);
  fetcher_.on_peer_down(event.peer, now_);
}

void RoundProtocol::on(const PeerSaid& event) {
  if (!up_.contains(event.peer)) return;
  std::visit([this, &event](const auto& message) { on_message(event.peer, message); },
             event.message);
}

void RoundProtocol::on_message(const std::string& peer, const Status& status) {
  const bool comparable =
      status.version > 0 && status.version >= heads_.first() && status.version < heads_.size();
  if (comparable && heads_[status.version] != status.head) {
    return end(4, "the first " + std::to_string(status.version) + " records here and in " + peer +
                      " differ: one of the two ledgers was replaced or edited; `causeway verify` "
                      "finds where. Restore it, or start that region afresh with --join");
  }
  Peer& known = peers_.at(peer);
  if (known.heard && status.version < known.status->version) return;  // of an older round
  known.heard = true;
  if (known.status != status) end_progress_at_ = now_;
  known.status = status;
  if (decider_) decider_->set_applied(peer, status.applied);
}

// ---- The worker ----

void RoundProtocol::on(const WorkerAttached& event) {
  worker_ = Worker{.has_lineage = event.has_lineage, .run_id = event.run_id};
  applied_ = event.holds;
}

void RoundProtocol::welcome() {
  if (!worker_ || worker_->welcomed || run_id_.empty()) return;
  if (worker_->has_lineage && worker_->run_id != run_id_) {
    return end(4, "the worker's training state belongs to run " + worker_->run_id +
                      ", but this is run " + run_id_ +
                      ": delete the region's training states, or use another directory");
  }
  worker_->welcomed = true;
  const bool pending = contributions_.contains({options_.self, applied_->version, 0});
  const bool decided =
      applied_->version < version() && newest_own_ && newest_own_->round == applied_->version;
  actions_.push_back(WelcomeWorker{run_id_, pending || decided});
}

void RoundProtocol::on(const WorkerLost&) {
  worker_.reset();
}

void RoundProtocol::on(const WorkerReady&) {
  if (!worker_) return;
  worker_->ready = true;
  worker_->continuing = false;
}

void RoundProtocol::on(const WorkerApplied& event) {
  applied_ = event.holds;
  distrusted_.reset();
  if (worker_) worker_->continued = false;
  end_progress_at_ = now_;
}

// Not taken on before a record confirms its state: it replaces the one that a wrong state is healed
// from.
void RoundProtocol::on(const WorkerOffered& event) {
  const Snapshot& offered = event.snapshot;
  blobs_.insert(offered.blob);
  const bool old = (snapshot_ && offered.version <= snapshot_->version) ||
                   (offered_ && offered.version <= offered_->version);
  if (old) return discard(offered.blob);
  const std::optional<Snapshot> before = std::exchange(offered_, offered);
  unclaimed_.erase(offered.blob);
  if (before) discard(before->blob);
  confirm_snapshot();
}

void RoundProtocol::confirm_snapshot() {
  if (!offered_ || offered_->version >= version()) return;
  const Snapshot offered = *std::exchange(offered_, std::nullopt);
  if (!trusted(offered)) return discard(offered.blob);
  const std::optional<Snapshot> before = std::exchange(snapshot_, offered);
  actions_.push_back(SaveSnapshot{offered});
  if (before) discard(before->blob);
}

// No record follows the last version, but all regions were seen to agree on it.
void RoundProtocol::confirm_final_snapshot() {
  if (!offered_ || !applied_ || offered_->version != version()) return;
  if (offered_->state != applied_->state) return;
  snapshot_ = std::exchange(offered_, std::nullopt);
  actions_.push_back(SaveSnapshot{*snapshot_});
}

// ---- Small things ----

void RoundProtocol::end(int exit_code, std::string message) {
  if (ended_) return;
  ended_ = true;
  actions_.push_back(EndRun{exit_code, std::move(message)});
}

void RoundProtocol::note(Note::Severity severity, std::string text) {
  actions_.push_back(Note{severity, std::move(text)});
}

void RoundProtocol::send(const std::string& peer, Message message) {
  if (up_.contains(peer)) actions_.push_back(SendMessage{peer, std::move(message)});
}

void RoundProtocol::broadcast(const Message& message) {
  for (const std::string& peer : up_) send(peer, message);
}

}  // namespace causeway::diloco
