#include "diloco/round_protocol.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "diloco/ledger_chain.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr Time kProgressReportInterval = seconds{1};
constexpr std::uint32_t kPartMax = 16;

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

// ---- Contributions ----

// It may still be listed: it is neither listed nor expired, and none of its samples was counted.
bool RoundProtocol::is_open(const Contribution& contribution) const {
  if (records_.empty()) return true;
  const bool plants = options_.planted == PlantedBug::list_expired;
  if (contribution.round < records_.back().expired_before && !plants) return false;
  // What a region that lost its disk may do again is not older than this.
  const Round from =
      version() - std::min(version(), (2 * options_.staleness_max + 2) * options_.pace.fragments);
  for (Round round = from; round < version(); ++round) {
    for (const Participant& listed : records_[round].participants) {
      if (key_of(listed) == key_of(contribution)) return false;
      if (share_samples(listed, contribution) && !plants) return false;
    }
  }
  return true;
}

// Whether a contribution that `peer` told of is one to keep in mind.
bool RoundProtocol::judge(const std::string& peer, const Contribution& contribution) {
  const Membership& membership = raft_.membership();
  const bool ours = contribution.run_id == run_id_ && contribution.part <= kPartMax;
  const bool member =
      membership.members.empty() || membership.regions().contains(contribution.region);
  if (!ours || !member) {
    note(Note::Severity::warning, peer + " announced a foreign contribution");
    return false;
  }
  if (!is_open(contribution)) return false;
  if (contribution.round >= version()) return true;
  return contribution.state == records_[contribution.round].state;
}

void RoundProtocol::on_message(const std::string& peer, const Holding& holding) {
  const Contribution& contribution = holding.contribution;
  const ContributionKey key = key_of(contribution);
  if (run_id_.empty() || !judge(peer, contribution)) return;
  const auto known = contributions_.find(key);
  const bool own = key.region == options_.self;
  if (own && known == contributions_.end()) return;  // of a lost disk
  if (known != contributions_.end() && known->second.payload != contribution.payload) {
    if (own || peer != key.region) return;
    // A record still to come may list the older payload.
    unclaimed_[known->second.payload] = version();
    peers_hold_.erase(key);
  }
  contributions_[key] = contribution;
  unclaimed_.erase(contribution.payload);
  peers_hold_[key][peer] = holding.received_bytes;
  if (decider_) {
    decider_->add(contribution, peer, holding.received_bytes, now_);
    // It was out of reach when it was told.
    if (decider_->rejects(contribution) && peer == key.region) {
      send(peer, Diverged{key.round, contribution.payload, decider_->tied()});
    }
  }
  if (contribution.sits_out || blobs_.contains(contribution.payload)) {
    // Its contributor's word may come again after a lost link, and so may ours.
    report_holding(contribution, contribution.payload.size_bytes);
  } else if (holding.pushing && !options_.witness) {
    // Under way: refresh_wants would ask for it at once.
    auto wanted = needed();
    wanted[contribution.payload] = {.source = peer, .under_way = true};
    fetcher_.set_wanted(wanted, now_);
  }
}

std::uint64_t RoundProtocol::held_bytes(const Contribution& contribution) const {
  return blobs_.contains(contribution.payload) ? contribution.payload.size_bytes
                                               : fetcher_.received_bytes(contribution.payload);
}

// A witness holds nothing, but passes on what it heard: it may be the only one that knows.
void RoundProtocol::report_holding(const Contribution& contribution, std::uint64_t received_bytes) {
  if (contribution.round > version() || options_.witness) return;
  if (decider_) {
    decider_->add(contribution, options_.self, received_bytes, now_);
  } else if (raft_.leader()) {
    send(*raft_.leader(), Holding{contribution, received_bytes, false});
  }
}

void RoundProtocol::on(const BlobArrived& event) {
  blobs_.insert(event.blob);
  received_bytes_ += fetcher_.on_progress(event.blob, event.blob.size_bytes, now_);
  progress_reported_at_.erase(event.blob);
  if (target_ && target_->blob == event.blob) {
    // From here on it is this region's own, which can serve others in turn.
    const std::optional<Snapshot> old = std::exchange(snapshot_, std::exchange(target_, {}));
    actions_.push_back(SaveSnapshot{*snapshot_});
    if (old) discard(old->blob);
  }
  for (const auto& [key, contribution] : contributions_) {
    if (contribution.payload == event.blob) report_holding(contribution, event.blob.size_bytes);
  }
  if (!referenced(event.blob)) unclaimed_[event.blob] = version();
}

void RoundProtocol::on(const BlobProgress& event) {
  const std::uint64_t growth_bytes = fetcher_.on_progress(event.blob, event.received_bytes, now_);
  if (growth_bytes == 0) return;
  received_bytes_ += growth_bytes;
  end_progress_at_ = now_;
  const auto reported = progress_reported_at_.find(event.blob);
  if (reported != progress_reported_at_.end() &&
      now_ < reported->second + kProgressReportInterval) {
    return;
  }
  progress_reported_at_[event.blob] = now_;
  for (const auto& [key, contribution] : contributions_) {
    if (contribution.payload == event.blob) report_holding(contribution, event.received_bytes);
  }
}

void RoundProtocol::on(const WorkerContributed& event) {
  Contribution contribution = event.contribution;
  const ContributionKey key = key_of(contribution);
  assert(key.region == options_.self && contribution.run_id == run_id_);
  if (!contribution.sits_out) blobs_.insert(contribution.payload);
  if (worker_ && key.part > 0) worker_->continued = false;
  // The newest word on what the worker holds.
  if (applied_ && applied_->version == key.round) applied_->state = contribution.state;
  const auto order = [](const Contribution& one) { return std::pair(one.round, one.part); };
  const bool newest = !newest_own_ || order(*newest_own_) <= order(contribution);
  if (contributions_.contains(key)) {
    if (contributions_.at(key).payload != contribution.payload) discard(contribution.payload);
    return;
  }
  stamp(contribution);
  if (newest) newest_own_ = contribution;  // also if it cannot be listed: its samples were used
  if (is_open(contribution)) contributions_[key] = contribution;
  save_own();
  if (!is_open(contribution)) return discard(contribution.payload);
  unclaimed_.erase(contribution.payload);
  for (const std::string& peer : up_) {
    send(peer, Holding{contribution, contribution.payload.size_bytes, true});
    const Member* member = raft_.membership().find(peer);
    const bool stores = member == nullptr || !member->witness;
    if (stores && !contribution.sits_out) actions_.push_back(PushBlob{peer, contribution.payload});
  }
  if (decider_) report_holding(contribution, contribution.payload.size_bytes);
}

// The outcome of what this region contributed last is known, and all of it is here.
void RoundProtocol::time_outcome() {
  const bool under_way = pending_ && !pending_->took && pending_->round < version();
  if (under_way && all_held(records_[pending_->round])) pending_->took = now_ - pending_->since;
}

// With what passed since the contribution before, if that was to the round before.
void RoundProtocol::stamp(Contribution& contribution) {
  using Seconds = std::chrono::duration<double>;
  if (contribution.part > 0) return pending_.reset();
  if (pending_ && pending_->took && pending_->round + 1 == contribution.round) {
    const double passed_s = Seconds(now_ - pending_->since).count();
    contribution.exchange_s = Seconds(*pending_->took).count();
    contribution.overhead_s = std::max(0.0, passed_s - contribution.compute_s);
  }
  pending_ = {.round = contribution.round, .since = now_};
}

void RoundProtocol::save_own() {
  SaveContributions save;
  bool newest_open = false;
  for (const auto& [key, contribution] : contributions_) {
    if (key.region != options_.self) continue;
    save.contributions.push_back(contribution);
    newest_open = newest_open || (newest_own_ && key == key_of(*newest_own_));
  }
  if (newest_own_ && !newest_open) save.contributions.push_back(*newest_own_);
  actions_.push_back(std::move(save));
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

std::string RoundProtocol::waiting_for(Time now) const {
  if (ended_) return {};
  if (run_id_.empty()) return "any region of the run to say which run this is";
  if (!options_.witness) {
    if (!worker_) return "this region's workers";
    if (worker_->continuing) return no_leader_sentence() + "; training goes on meanwhile";
    if (!worker_->ready) return {};
    if (const std::string sentence = catching_up_sentence(); !sentence.empty()) return sentence;
  }
  if (over()) return "the other regions to reach the last round";
  if (!options_.witness && !data_plan_.share()) {
    return "the record of round " + std::to_string(version()) +
           ", which gives this region its share of the data";
  }
  if (!raft_.leader()) return no_leader_sentence();
  if (!decider_) {
    return *raft_.leader() + " to decide round " + std::to_string(version());
  }
  const Membership& membership = raft_.membership();
  if (membership.voters() < membership.majority()) {
    return std::to_string(membership.majority() - membership.voters()) +
           " more of the run's regions to join: most of them make a round";
  }
  const std::string contributions = decider_->waiting_for(now);
  return contributions.empty() || raft_.settled() ? contributions : votes_sentence();
}

// What was decided is not agreed on as long as this lasts.
std::string RoundProtocol::votes_sentence() const {
  std::string unreachable;
  for (const Member& member : raft_.membership().members) {
    const bool silent = !member.incarnation.empty() && member.region != options_.self &&
                        !up_.contains(member.region);
    if (silent) unreachable += (unreachable.empty() ? "" : ", ") + member.region;
  }
  return "most of the voting regions to put the last entry on disk" +
         (unreachable.empty() ? "" : " (" + unreachable + " unreachable)");
}

}  // namespace causeway::diloco
