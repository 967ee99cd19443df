#include "diloco/round_protocol.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr std::size_t kRecordsPerMessage = 64;
constexpr Time kProgressReportInterval = seconds{1};

}  // namespace

RoundProtocol::RoundProtocol(ProtocolOptions options, PersistentState state)
    : options_(std::move(options)),
      run_id_(std::move(state.run_id)),
      records_(std::move(state.records)),
      own_(std::move(state.contribution)),
      snapshot_(std::move(state.snapshot)),
      blobs_(std::move(state.blobs)) {
  assert(options_.roster.contains(options_.self) && options_.roster.contains(options_.decider));
  for (const std::string& region : options_.roster) {
    if (region != options_.self) peers_[region];
  }
  if (snapshot_ && !blobs_.contains(snapshot_->blob)) snapshot_.reset();
  if (is_decider()) decider_.emplace(options_, records_.empty() ? nullptr : &records_.back());
  if (own_ && own_->round == version() && blobs_.contains(own_->payload)) {
    contributions_[options_.self] = *own_;
    if (decider_) decider_->add(*own_, options_.self, own_->payload.size_bytes, now_);
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
  if (!started_) decider_seen_at_ = end_progress_at_ = now;
  started_ = true;
  now_ = now;
  actions_.clear();
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
  if (decider_) consider(decider_->deadline());
  if (!up_.empty()) consider(fetcher_.next_deadline());
  if (records_asked_at_) consider(*records_asked_at_ + seconds{2});
  if (published_ && *published_ != status()) consider(published_at_ + kProgressReportInterval);
  consider(end_deadline());
  return next;
}

void RoundProtocol::settle() {
  welcome();
  check_state();
  decide();
  ask_for_records();
  release_old();
  refresh_wants();
  instruct();
  publish();
  check_end();
}

// ---- Links ----

void RoundProtocol::on(const RunIdLearned& event) {
  assert(run_id_.empty());
  run_id_ = event.run_id;
}

void RoundProtocol::on(const PeerUp& event) {
  if (!peers_.contains(event.peer)) return;
  up_.insert(event.peer);
  end_progress_at_ = now_;
  if (decider_) decider_->set_up(event.peer, true);
  fetcher_.on_peer_up(event.peer, now_);

  // Whatever was said before may not have arrived.
  send(event.peer, status());
  for (const auto& [region, contribution] : contributions_) {
    const bool concerns_peer = region == options_.self || event.peer == options_.decider;
    if (!concerns_peer || contribution.round != version()) continue;
    const std::uint64_t received_bytes = blobs_.contains(contribution.payload)
                                             ? contribution.payload.size_bytes
                                             : fetcher_.received_bytes(contribution.payload);
    send(event.peer, Holding{contribution, received_bytes, false});
  }
  if (decider_ && finished_at_) send(event.peer, Finished{});
}

void RoundProtocol::on(const PeerDown& event) {
  up_.erase(event.peer);
  if (event.peer == options_.decider) decider_seen_at_ = now_;
  if (decider_) decider_->set_up(event.peer, false);
  fetcher_.on_peer_down(event.peer, now_);
}

void RoundProtocol::on(const PeerSaid& event) {
  if (!peers_.contains(event.peer)) return;
  std::visit([this, &event](const auto& message) { on_message(event.peer, message); },
             event.message);
}

void RoundProtocol::on_message(const std::string& peer, const Status& status) {
  Peer& known = peers_.at(peer);
  if (known.status != status) end_progress_at_ = now_;
  known.status = status;
  if (decider_) decider_->set_applied(peer, status.applied);
}

// ---- Contributions ----

void RoundProtocol::on_message(const std::string& peer, const Holding& holding) {
  const Contribution& contribution = holding.contribution;
  const std::string& region = contribution.region;
  const bool foreign = contribution.run_id != run_id_ || !options_.roster.contains(region);
  if (run_id_.empty() || contribution.round < version()) return;
  if (foreign) return note(Note::Severity::warning, peer + " announced a foreign contribution");
  const auto known = contributions_.find(region);
  if (region == options_.self && known == contributions_.end()) return;  // of a lost disk
  if (known != contributions_.end()) {
    const bool other = known->second.payload != contribution.payload;
    if (known->second.round > contribution.round) return;
    if (known->second.round == contribution.round && other && peer != region) return;
    if (region == options_.self && other) return;
    // A record still to come may list the older payload.
    if (other) unclaimed_[known->second.payload] = version();
  }
  contributions_[region] = contribution;
  unclaimed_.erase(contribution.payload);
  if (decider_) {
    decider_->add(contribution, peer, holding.received_bytes, now_);
  }
  if (blobs_.contains(contribution.payload)) {
    // Its contributor's word may come again after a lost link, and so may ours.
    report_holding(contribution, contribution.payload.size_bytes);
  } else if (holding.pushing) {
    // Under way: refresh_wants would ask for it at once.
    auto wanted = needed();
    wanted[contribution.payload] = {.source = peer, .under_way = true};
    fetcher_.set_wanted(wanted, now_);
  }
}

void RoundProtocol::report_holding(const Contribution& contribution, std::uint64_t received_bytes) {
  if (contribution.round != version()) return;
  if (decider_) {
    decider_->add(contribution, options_.self, received_bytes, now_);
  } else {
    send(options_.decider, Holding{contribution, received_bytes, false});
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
  for (const auto& [region, contribution] : contributions_) {
    if (contribution.payload == event.blob) {
      report_holding(contribution, event.blob.size_bytes);
    }
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
  for (const auto& [region, contribution] : contributions_) {
    if (contribution.payload == event.blob) report_holding(contribution, event.received_bytes);
  }
}

void RoundProtocol::on(const WorkerContributed& event) {
  const Contribution& contribution = event.contribution;
  assert(contribution.region == options_.self && contribution.run_id == run_id_);
  blobs_.insert(contribution.payload);
  const bool repeated =
      contributions_.contains(options_.self) || (own_ && own_->round > contribution.round);
  if (!repeated) {
    // Also when it is too late to be listed: its samples were used.
    own_ = contribution;
    actions_.push_back(SaveContribution{contribution});
  }
  if (repeated || contribution.round != version()) {
    discard(contribution.payload);
    return;
  }
  contributions_[options_.self] = contribution;
  unclaimed_.erase(contribution.payload);
  for (const std::string& peer : up_) {
    send(peer, Holding{contribution, contribution.payload.size_bytes, true});
    actions_.push_back(PushBlob{peer, contribution.payload});
  }
  if (decider_) {
    decider_->add(contribution, options_.self, contribution.payload.size_bytes, now_);
  }
}

// ---- Decisions and records ----

void RoundProtocol::decide() {
  // A peer with more records than the decider means that the decider's disk lost some: they come
  // first.
  if (!decider_ || ended_ || behind_a_peer()) return;
  const Decider::Verdict verdict = decider_->decide(now_);
  for (const std::string& region : verdict.diverged) {
    note(Note::Severity::error, "the state of " + region + " at version " +
                                    std::to_string(version()) +
                                    " differs from the agreed one: its contribution is not listed");
    if (region != options_.self) send(region, Diverged{version(), verdict.state});
  }
  const bool self_diverged =
      std::ranges::find(verdict.diverged, options_.self) != verdict.diverged.end();
  if (verdict.record) {
    append({*verdict.record});  // on disk before anyone hears of it
    broadcast(Records{verdict.record->round, {*verdict.record}});
  }
  if (self_diverged) on_message(options_.self, Diverged{version(), verdict.state});
}

void RoundProtocol::on_message(const std::string& peer, const Records& records) {
  if (run_id_.empty()) return;
  std::vector<CommitRecord> added;
  for (const CommitRecord& record : records.records) {
    const Round next = version() + added.size();
    if (record.round > next) break;  // a gap: ask_for_records closes it
    if (record.round == next) {
      if (!acceptable(record)) return;
      added.push_back(record);
    } else if (record.round < version() && serialize(record) != serialize(records_[record.round])) {
      return end(4, "the records of round " + std::to_string(record.round) + " here and in " +
                        peer +
                        " differ: one of the two ledgers was replaced or edited; restore it or "
                        "start that region afresh with --join");
    }
  }
  if (!added.empty()) append(std::move(added));
}

bool RoundProtocol::acceptable(const CommitRecord& record) {
  const bool known_regions =
      std::ranges::all_of(record.participants, [this](const Participant& participant) {
        return options_.roster.contains(participant.region);
      });
  if (record.run_id == run_id_ && known_regions) return true;
  note(Note::Severity::warning, "ignored a commit record of another run or roster");
  return false;
}

void RoundProtocol::append(std::vector<CommitRecord> records) {
  actions_.push_back(AppendRecords{records});
  for (CommitRecord& record : records) {
    if (decider_) decider_->open_next(record);
    records_.push_back(std::move(record));
    after_append(records_.back());
  }
  for (const auto& [region, contribution] : contributions_) {
    if (contribution.round != version()) continue;
    if (decider_) {
      decider_->add(contribution, region, contribution.payload.size_bytes, now_);
    }
    if (blobs_.contains(contribution.payload)) {
      report_holding(contribution, contribution.payload.size_bytes);
    }
  }
}

// Contributions to a decided round are settled: listed, or expired at once, as no late one is ever
// listed.
void RoundProtocol::after_append(const CommitRecord& record) {
  end_progress_at_ = now_;
  std::vector<inter::BlobId> settled;
  for (const auto& [region, contribution] : contributions_) {
    if (contribution.round <= record.round) settled.push_back(contribution.payload);
  }
  std::erase_if(contributions_,
                [&record](const auto& entry) { return entry.second.round <= record.round; });
  for (const inter::BlobId& blob : settled) discard(blob);
  for (const Participant& participant : record.participants) unclaimed_.erase(participant.payload);

  std::vector<inter::BlobId> stale;
  for (const auto& [blob, arrived_at] : unclaimed_) {
    if (arrived_at + 2 <= version()) stale.push_back(blob);
  }
  for (const inter::BlobId& blob : stale) discard(blob);
}

void RoundProtocol::on_message(const std::string& peer, const NeedRecords& need) {
  if (need.from >= version()) return;
  const auto first = records_.begin() + static_cast<std::ptrdiff_t>(need.from);
  const std::size_t count = std::min<std::size_t>(kRecordsPerMessage, version() - need.from);
  send(peer, Records{need.from, {first, first + static_cast<std::ptrdiff_t>(count)}});
}

void RoundProtocol::on_message(const std::string& peer, const Diverged& diverged) {
  if (peer != options_.decider && peer != options_.self) return;
  end(4, "this region's state of version " + std::to_string(diverged.round) +
             " is not the one that the other regions agreed on (" + to_hex(diverged.state) +
             "): delete this region's training states and restart its workers, which then take "
             "the state from another region");
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
  const bool pending = contributions_.contains(options_.self) &&
                       contributions_.at(options_.self).round == applied_->version;
  const bool decided = applied_->version < version() && own_ && own_->round == applied_->version;
  actions_.push_back(WelcomeWorker{run_id_, pending || decided});
}

void RoundProtocol::on(const WorkerLost&) {
  worker_.reset();
}

void RoundProtocol::on(const WorkerReady&) {
  if (worker_) worker_->ready = true;
}

void RoundProtocol::on(const WorkerApplied& event) {
  applied_ = event.holds;
  end_progress_at_ = now_;
}

void RoundProtocol::on(const WorkerOffered& event) {
  blobs_.insert(event.snapshot.blob);
  if (snapshot_ && event.snapshot.version <= snapshot_->version) {
    return discard(event.snapshot.blob);
  }
  const std::optional<Snapshot> old = std::exchange(snapshot_, event.snapshot);
  unclaimed_.erase(event.snapshot.blob);
  actions_.push_back(SaveSnapshot{event.snapshot});
  if (old) discard(old->blob);
}

// The record of a round names the agreed state that it starts from.
void RoundProtocol::check_state() {
  if (ended_) return;
  if (decider_) decider_->set_applied(options_.self, applied_);
  if (!applied_ || applied_->version >= version() || !worker_) return;
  const Digest& agreed = records_[applied_->version].state;
  if (agreed != applied_->state) on_message(options_.self, Diverged{applied_->version, agreed});
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
  if (run_id_.empty()) return options_.decider + " to say which run this is";
  if (!worker_) return "this region's workers";
  if (!worker_->ready) return {};
  if (const std::string sentence = catching_up_sentence(); !sentence.empty()) return sentence;
  if (version() >= options_.rounds) return "the other regions to reach the last round";
  if (decider_) return decider_->waiting_for(now);
  const std::string unreachable = up_.contains(options_.decider) ? "" : ", which is unreachable";
  return options_.decider + unreachable + " to decide round " + std::to_string(version());
}

}  // namespace causeway::diloco
