// RoundProtocol: getting what this region lacks, telling its worker what to do, and letting go of
// what nobody needs.
#include <algorithm>

#include "diloco/round/round_protocol.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr Time kStatusInterval = seconds{1};
// A state is made again at most so often. More than once, as without a majority the right one is
// doubted as well, and stale claims about it may still go around.
constexpr int kHealsMax = 3;
constexpr Round kRoundsFetched = 256;  // at once

}  // namespace

bool RoundProtocol::behind_a_peer() const {
  return std::ranges::any_of(peers_, [this](const auto& peer) {
    return peer.second.status && peer.second.status->version > version();
  });
}

// ---- Payloads and snapshots ----

bool RoundProtocol::all_held(const CommitRecord& record) const {
  return std::ranges::all_of(record.participants, [this](const Participant& participant) {
    return blobs_.contains(participant.payload);
  });
}

// The first round at or after `from` of which a listed payload is not here.
Round RoundProtocol::first_missing(Round from) const {
  Round round = from;
  while (round < version() && all_held(records_[round])) ++round;
  return round;
}

Round RoundProtocol::payloads_from() const {
  Round from = version();
  while (from > released_ && all_held(records_[from - 1])) --from;
  return from;
}

// Whether the payloads of rounds [from, version) are here or at a peer that can be asked.
bool RoundProtocol::can_replay(Round from) const {
  const Round missing = first_missing(from);
  if (missing == version()) return true;
  return std::ranges::any_of(up_, [this, missing](const std::string& name) {
    const std::optional<Status>& status = peers_.at(name).status;
    return status && status->payloads_from <= missing && status->version > missing;
  });
}

// It is what the run agreed on, as far as that can be known.
bool RoundProtocol::trusted(const Snapshot& snapshot) const {
  if (snapshot.version > version()) return false;
  if (snapshot.version == 0 && origin()) return snapshot.state == origin()->state;
  if (snapshot.version == version()) return !distrusted_;
  return records_[snapshot.version].state == snapshot.state;
}

// Whether a worker that adopts it can go on from there.
bool RoundProtocol::helps(const Snapshot& snapshot) const {
  const bool leads_on = distrusted_ || snapshot.version > applied_->version;
  return leads_on && trusted(snapshot) && can_replay(snapshot.version);
}

// A peer's snapshot to adopt: the worker is so far behind that the payloads it would need are gone
// everywhere, or its state is wrong, and this region's own snapshot does not help.
std::optional<Snapshot> RoundProtocol::choose_snapshot() const {
  if (!worker_) return {};
  const bool behind = applied_->version < version() && !can_replay(applied_->version);
  if (!behind && !distrusted_) return {};
  if (snapshot_ && helps(*snapshot_)) return {};
  std::optional<Snapshot> best;
  for (const std::string& name : up_) {
    const std::optional<Status>& status = peers_.at(name).status;
    if (!status || !status->snapshot) continue;
    const Snapshot& offered = *status->snapshot;
    const bool useful =
        distrusted_ ? helps(offered) : offered.version > applied_->version && trusted(offered);
    if (!useful) continue;
    if (target_ == offered) return target_;  // already on its way
    if (!best || offered.version > best->version) best = offered;
  }
  return best;
}

// A peer that says it has all payloads of the round, best the contributor; if none does, the
// contributor.
std::string RoundProtocol::holder_of(const Participant& participant, Round round) const {
  const auto has_all = [this, round](const std::string& name) {
    if (!up_.contains(name)) return false;
    const std::optional<Status>& status = peers_.at(name).status;
    return status && status->payloads_from <= round && status->version > round;
  };
  if (has_all(participant.region)) return participant.region;
  const auto holder = std::ranges::find_if(up_, has_all);
  return holder == up_.end() ? participant.region : *holder;
}

// The first round whose payloads the worker is to apply.
Round RoundProtocol::replay_from() const {
  Round from = version() - std::min(version(), rounds_kept());
  if (worker_) from = std::min(applied_->version, version());
  if (worker_ && distrusted_) from = snapshot_ && helps(*snapshot_) ? snapshot_->version : 0;
  if (target_) from = target_->version;
  if (worker_ && !target_ && snapshot_ && !can_replay(from)) {
    from = std::max(from, snapshot_->version);
  }
  return from;
}

// At once. If not all fits, those that the worker applies next: what comes later must not take
// their room.
Round RoundProtocol::rounds_fetched() const {
  return crowded() ? 2 * options_.pace.fragments : kRoundsFetched;
}

// What is kept or needed takes more than half of the spool. The other half is for snapshots, the
// contribution under way, and what peers push meanwhile.
bool RoundProtocol::crowded() const {
  if (options_.spool_bytes == 0) return false;
  std::uint64_t bytes = 0;
  for (Round round = released_; round < version(); ++round) {
    for (const Participant& participant : records_[round].participants) {
      bytes += participant.payload.size_bytes;
    }
    if (bytes > options_.spool_bytes / 2) return true;
  }
  return false;
}

std::map<inter::BlobId, Fetcher::Want> RoundProtocol::needed() const {
  std::map<inter::BlobId, Fetcher::Want> wanted;
  if (options_.witness) return wanted;
  const auto want = [this, &wanted](const inter::BlobId& blob, const std::string& source) {
    if (!blobs_.contains(blob)) wanted.try_emplace(blob, Fetcher::Want{.source = source});
  };
  for (const auto& [key, contribution] : contributions_) {
    if (!contribution.sits_out) want(contribution.payload, key.region);
  }
  const Round from = replay_from();
  // The worker applies them in order.
  const Round to = std::min(version(), from + rounds_fetched());
  for (Round round = from; round < to; ++round) {
    for (const Participant& participant : records_[round].participants) {
      want(participant.payload, holder_of(participant, round));
    }
  }
  if (!target_) return wanted;
  for (const std::string& name : up_) {
    const std::optional<Status>& status = peers_.at(name).status;
    if (status && status->snapshot == target_) want(target_->blob, name);
  }
  return wanted;
}

void RoundProtocol::refresh_wants() {
  target_ = choose_snapshot();
  if (target_ && blobs_.contains(target_->blob)) on(BlobArrived{target_->blob});
  fetcher_.set_wanted(needed(), now_);
  for (Fetcher::Request& request : fetcher_.due(up_, now_)) {
    actions_.push_back(FetchBlob{std::move(request.peer), request.blob});
  }
}

// ---- A wrong state ----

// The record of a round names the agreed state that it starts from.
void RoundProtocol::check_state() {
  check_origin();
  if (!applied_ || !worker_ || applied_->version >= version()) return;
  if (records_[applied_->version].state != applied_->state) distrust_own_state();
}

// Workers begin with initial weights; a forked run begins with another run's.
void RoundProtocol::check_origin() {
  const bool begins = origin() && worker_ && applied_->version == 0;
  if (begins && applied_->state != origin()->state) distrusted_ = applied_;
}

void RoundProtocol::on_message(const std::string& peer, const Diverged& diverged) {
  const bool from_leader = peer == options_.self || peer == raft_.leader();
  const auto own = contributions_.find({options_.self, diverged.round, 0});
  if (!from_leader || own == contributions_.end() || own->second.payload != diverged.payload)
    return;
  const Applied made_from{diverged.round, own->second.state};
  contributions_.erase(own);
  // What is on disk for its samples' sake must not come back as an offer.
  if (newest_own_ && newest_own_->payload == diverged.payload) newest_own_->payload = {};
  save_own();
  unclaimed_[diverged.payload] = version();  // another leader may know nothing of this and list it
  // In a tie a state that was made again before may be the right one: others have to heal.
  if (diverged.tie && heals_[made_from.version] == kHealsMax) return;
  if (applied_ == made_from) distrust_own_state();
}

// It is made again: from a snapshot that the run agreed on, and the payloads since.
void RoundProtocol::distrust_own_state() {
  if (distrusted_ == applied_) return;
  const std::string which = "this region's state of version " + std::to_string(applied_->version) +
                            " is not the one that the other regions agreed on";
  if (++heals_[applied_->version] > kHealsMax) {
    return end(4, which + ", and making it again from a snapshot gave the same: this machine or " +
                      "program computes something else; do not let it contribute");
  }
  distrusted_ = applied_;
  note(Note::Severity::error, which + ": it stops contributing, takes a snapshot and replays");
}

// ---- The worker ----

void RoundProtocol::instruct() {
  if (ended_ || !worker_ || !worker_->welcomed) return;
  if (worker_->continuing) call_back();
  if (!worker_->ready) return;
  if (distrusted_) return restore_worker();
  if (applied_->version < version()) return catch_up_worker();
  if (applied_->version > version() || behind_a_peer()) return;
  if (over()) {
    actions_.push_back(OrderFinish{version(), applied_->state});
    worker_->ready = false;
    finish_told_ = true;
    return;
  }
  instruct_idle();
}

// Its steps beyond the round are for when there is nothing else to do.
void RoundProtocol::call_back() {
  if (applied_->version == version() && !distrusted_) return;
  actions_.push_back(OrderCallBack{});
  worker_->continuing = false;
}

// The worker stands at the open round.
void RoundProtocol::instruct_idle() {
  if (contributions_.contains({options_.self, version(), 0})) {
    // The outcome comes by record; without a majority within reach, nobody knows when.
    const auto share = data_plan_.share();
    if (!cut_off() || !share) return;
    actions_.push_back(OrderContinue{version(), next_k(), data_cursor(), schedule_step(), *share});
    worker_->continued = worker_->continuing = true;
    worker_->ready = false;
    return;
  }
  // Nobody trains before hearing from the leader where the run stands, unless there is none, nor
  // before the log has said what the run begins with.
  const std::optional<std::string>& leader = raft_.leader();
  const bool led = leader && (leads() || (peers_.contains(*leader) && peers_.at(*leader).status));
  const auto share = data_plan_.share();
  if ((!led && !cut_off()) || !share || raft_.membership().members.empty()) return;
  actions_.push_back(OrderTrain{.round = version(),
                                .k = next_k(),
                                .data_cursor = data_cursor(),
                                .schedule_step = schedule_step(),
                                .share = *share,
                                .ahead = std::min(options_.overlap_steps, nominal_next_k())});
  worker_->ready = worker_->continued = false;
}

std::uint32_t RoundProtocol::next_k() const {
  if (!records_.empty()) {
    for (const Standing& standing : records_.back().standings) {
      if (standing.region == options_.self && standing.next_k > 0) return standing.next_k;
    }
  }
  return nominal_k(version());
}

void RoundProtocol::catch_up_worker() {
  const CommitRecord& record = records_[applied_->version];
  if (all_held(record)) {
    // What was done while nobody could be reached comes late, if it still may.
    const Round late = version() - applied_->version;
    const bool may_be_late = late <= options_.staleness_max * options_.pace.fragments;
    if (worker_->continued && may_be_late && !over()) {
      actions_.push_back(OrderCollect{applied_->version});
      worker_->continued = false;
    } else {
      actions_.push_back(OrderApply{record});
    }
    worker_->ready = false;
    return;
  }
  // Before any peer was heard, a payload may still turn out to be available.
  const bool heard =
      std::ranges::any_of(peers_, [](const auto& peer) { return peer.second.status.has_value(); });
  const bool restorable =
      snapshot_ && snapshot_->version > applied_->version && trusted(*snapshot_) && !target_;
  if (!heard || !restorable || can_replay(applied_->version)) return;
  restore_worker();
}

void RoundProtocol::restore_worker() {
  if (target_) return;
  if (snapshot_ && (!distrusted_ || helps(*snapshot_))) {
    actions_.push_back(OrderRestore{*snapshot_});
  } else if (distrusted_ && !origin() && can_replay(0)) {
    // Every worker can make the initial weights.
    actions_.push_back(OrderRestore{Snapshot{}});
  } else {
    return;
  }
  worker_->ready = false;
  worker_->continued = false;
}

// Inner steps of a round: what the record before it says.
std::uint32_t RoundProtocol::nominal_k(Round round) const {
  return round == 0 ? options_.pace.round_steps(0) : records_[round - 1].next_k;
}

// Of the round after the open one.
std::uint32_t RoundProtocol::nominal_next_k() const {
  const auto& decision = k_policy_.next();
  return options_.pace.round_steps(schedule_step() + nominal_k(version()),
                                   decision ? decision->k : k_policy_.k());
}

// Inner steps since the open round's fragment was exchanged before.
std::uint64_t RoundProtocol::steps_since_exchange() const {
  const Round before = version() + 1 - std::min<Round>(version() + 1, options_.pace.fragments);
  return schedule_step() + nominal_k(version()) - steps_before_[before];
}

// ---- Letting go ----

// Payloads of this many rounds are kept even if a snapshot covers them, for regions that are just
// behind: whoever may still contribute late must be able to replay.
Round RoundProtocol::rounds_kept() const {
  return std::max<Round>(2, (options_.staleness_max + 1) * options_.pace.fragments);
}

bool RoundProtocol::referenced(const inter::BlobId& blob) const {
  const auto names_blob = [&blob](const auto& entry) { return entry.payload == blob; };
  if (snapshot_ && snapshot_->blob == blob) return true;
  if (offered_ && offered_->blob == blob) return true;
  if (target_ && target_->blob == blob) return true;
  for (const auto& [key, contribution] : contributions_) {
    if (names_blob(contribution)) return true;
  }
  for (Round round = released_; round < version(); ++round) {
    if (std::ranges::any_of(records_[round].participants, names_blob)) return true;
  }
  return false;
}

void RoundProtocol::discard(const inter::BlobId& blob) {
  if (referenced(blob)) return;
  if (!blobs_.contains(blob) && !unclaimed_.contains(blob) && options_.witness) return;
  unclaimed_.erase(blob);
  blobs_.erase(blob);
  progress_reported_at_.erase(blob);
  actions_.push_back(RemoveBlob{blob});
}

void RoundProtocol::release_old() {
  if (options_.planted == PlantedBug::keep_everything) return;
  Round keep_from = version() - std::min(version(), rounds_kept());
  if (!options_.witness) {
    keep_from = std::min(keep_from, snapshot_ ? snapshot_->version : 0);
    keep_from = std::min(keep_from, applied_ ? applied_->version : 0);
  }
  while (released_ < keep_from) {
    const CommitRecord& record = records_[released_++];
    for (const Participant& participant : record.participants) discard(participant.payload);
  }
}

// Everybody else, or two: more than the leader counts on when it lists a payload.
bool RoundProtocol::held_elsewhere(Round round) const {
  const std::set<std::string> regions = raft_.membership().regions();
  const auto holders = std::ranges::count_if(up_, [&](const std::string& name) {
    const std::optional<Status>& status = peers_.at(name).status;
    return regions.contains(name) && status && status->payloads_from <= round &&
           status->version > round;
  });
  return holders >= 2 || static_cast<std::size_t>(holders) + 1 >= regions.size();
}

// A worker that is behind would wait for room that only it can make, if later rounds filled the
// spool before it has what it needs next. They are asked for again when their turn comes.
void RoundProtocol::release_later() {
  if (!worker_ || !crowded()) return;
  const Round later = replay_from() + rounds_fetched();
  for (Round round = std::max(released_, later); round < version(); ++round) {
    if (!held_elsewhere(round)) continue;
    for (const Participant& participant : records_[round].participants) {
      const inter::BlobId& blob = participant.payload;
      if (blobs_.erase(blob) == 0 && fetcher_.received_bytes(blob) == 0) continue;
      progress_reported_at_.erase(blob);
      actions_.push_back(RemoveBlob{blob});
    }
  }
}

// Records leave memory when nothing but their place in history is of use any more: their payloads
// are gone, and no contribution of their time can come.
void RoundProtocol::forget_old() {
  const Round in_use =
      std::max<Round>(options_.records_in_memory, 2 * rounds_kept() + options_.pace.fragments);
  const Round before = std::min(released_, version() - std::min(version(), in_use));
  if (before == 0) return;
  raft_.forget_before(records_.index_of(before));
  heads_.forget_before(before);
  steps_before_.forget_before(before);
}

// ---- Status ----

Status RoundProtocol::status() const {
  return {.version = version(),
          .head = heads_.empty() ? Digest{} : heads_.back(),
          .applied = applied_,
          .payloads_from = payloads_from(),
          .snapshot = snapshot_,
          .received_bytes = received_bytes_};
}

// At once when something changed that others act on; at most every second when only bytes arrived.
void RoundProtocol::publish() {
  Status current = status();
  if (published_) {
    Status ignoring_bytes = current;
    ignoring_bytes.received_bytes = published_->received_bytes;
    if (ignoring_bytes == *published_ &&
        (current == *published_ || now_ < published_at_ + kStatusInterval)) {
      return;
    }
  }
  broadcast(current);
  published_ = std::move(current);
  published_at_ = now_;
}

}  // namespace causeway::diloco
