// RoundProtocol: getting what this region lacks, telling its worker what to do, and letting go of
// what nobody needs.
#include <algorithm>

#include "diloco/round_protocol.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr Time kRecordsRetry = seconds{2};
constexpr Time kStatusInterval = seconds{1};
// Payloads of this many rounds are kept even if a snapshot covers them, for regions that are just
// behind.
constexpr Round kRoundsKept = 2;

}  // namespace

// ---- Records ----

// The peer with the most records, if it has more than this region; the decider if there are
// several.
std::optional<std::string> RoundProtocol::furthest_peer() const {
  std::optional<std::string> best;
  Round most = version();
  for (const std::string& name : up_) {
    const std::optional<Status>& status = peers_.at(name).status;
    if (!status) continue;
    const bool better =
        status->version > most || (best && status->version == most && name == options_.decider);
    if (!better) continue;
    best = name;
    most = status->version;
  }
  return best;
}

bool RoundProtocol::behind_a_peer() const {
  return std::ranges::any_of(peers_, [this](const auto& peer) {
    return peer.second.status && peer.second.status->version > version();
  });
}

void RoundProtocol::ask_for_records() {
  const std::optional<std::string> peer = furthest_peer();
  if (!peer || run_id_.empty()) {
    records_asked_at_.reset();
    return;
  }
  const bool asked = records_asked_at_ && records_asked_from_ == version();
  if (asked && now_ < *records_asked_at_ + kRecordsRetry) return;
  records_asked_at_ = now_;
  records_asked_from_ = version();
  send(*peer, NeedRecords{version()});
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
  while (from > 0 && all_held(records_[from - 1])) --from;
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

// A peer's snapshot to adopt, if the worker is so far behind that the payloads it would need are
// gone everywhere.
std::optional<Snapshot> RoundProtocol::choose_snapshot() const {
  if (!worker_ || applied_->version >= version() || can_replay(applied_->version)) return {};
  const bool own_helps =
      snapshot_ && snapshot_->version > applied_->version && can_replay(snapshot_->version);
  if (own_helps) return {};
  std::optional<Snapshot> best;
  for (const std::string& name : up_) {
    const std::optional<Status>& status = peers_.at(name).status;
    if (!status || !status->snapshot) continue;
    const Snapshot& offered = *status->snapshot;
    if (offered.version <= applied_->version || offered.version > version()) continue;
    if (target_ == offered) return target_;  // already on its way
    if (!best || offered.version > best->version) best = offered;
  }
  return best;
}

std::map<inter::BlobId, Fetcher::Want> RoundProtocol::needed() const {
  std::map<inter::BlobId, Fetcher::Want> wanted;
  const auto want = [this, &wanted](const inter::BlobId& blob, const std::string& source) {
    if (!blobs_.contains(blob)) wanted.try_emplace(blob, Fetcher::Want{.source = source});
  };
  for (const auto& [region, contribution] : contributions_) want(contribution.payload, region);

  Round from = version() - std::min(version(), kRoundsKept);
  if (worker_) from = applied_->version;
  if (target_) from = target_->version;
  if (worker_ && !target_ && snapshot_ && !can_replay(from)) {
    from = std::max(from, snapshot_->version);
  }
  for (Round round = from; round < version(); ++round) {
    for (const Participant& participant : records_[round].participants) {
      want(participant.payload, participant.region);
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

// ---- The worker ----

void RoundProtocol::instruct() {
  if (ended_ || !worker_ || !worker_->welcomed || !worker_->ready) return;
  if (applied_->version < version()) return catch_up_worker();
  if (applied_->version > version() || behind_a_peer()) return;
  if (version() >= options_.rounds) {
    actions_.push_back(OrderFinish{version()});
    worker_->ready = false;
    finish_told_ = true;
    return;
  }
  if (contributions_.contains(options_.self)) return;  // the outcome comes by record
  // Nobody trains before hearing from the decider where the run stands.
  if (!decider_ && !peers_.at(options_.decider).status) return;
  actions_.push_back(OrderTrain{version(), nominal_k(version()), data_cursor(), schedule_step()});
  worker_->ready = false;
}

void RoundProtocol::catch_up_worker() {
  const CommitRecord& record = records_[applied_->version];
  if (all_held(record)) {
    actions_.push_back(OrderApply{record});
    worker_->ready = false;
    return;
  }
  // Before any peer was heard, a payload may still turn out to be available.
  const bool heard =
      std::ranges::any_of(peers_, [](const auto& peer) { return peer.second.status.has_value(); });
  const bool restorable = snapshot_ && snapshot_->version > applied_->version &&
                          snapshot_->version <= version() && !target_;
  if (!heard || !restorable || can_replay(applied_->version)) return;
  actions_.push_back(OrderRestore{*snapshot_});
  worker_->ready = false;
}

// Inner steps of a round: what the record before it says.
std::uint32_t RoundProtocol::nominal_k(Round round) const {
  const std::uint32_t next_k = round == 0 ? 0 : records_[round - 1].next_k;
  return next_k == 0 ? options_.k : next_k;
}

// Where the inner learning rate's schedule stands: the same in all regions, whatever steps each
// took.
std::uint64_t RoundProtocol::schedule_step() const {
  std::uint64_t steps = 0;
  for (Round round = 0; round < version(); ++round) steps += nominal_k(round);
  return steps;
}

// Samples of a contribution that expired were used all the same: its work is in the worker's
// residual.
std::uint64_t RoundProtocol::data_cursor() const {
  std::uint64_t cursor = own_ ? own_->data_cursor : 0;
  for (auto record = records_.rbegin(); record != records_.rend(); ++record) {
    const auto listed =
        std::ranges::find(record->participants, options_.self, &Participant::region);
    if (listed != record->participants.end()) return std::max(cursor, listed->data_cursor);
  }
  return cursor;
}

std::string RoundProtocol::catching_up_sentence() const {
  if (applied_->version > version()) {
    return "commit records from round " + std::to_string(version()) + " on";
  }
  for (const inter::BlobId& blob : fetcher_.wanted()) {
    const bool is_snapshot = target_ && target_->blob == blob;
    if (!is_snapshot && applied_->version == version()) continue;
    return (is_snapshot ? "a snapshot of version " + std::to_string(target_->version)
                        : "payloads from round " + std::to_string(applied_->version) + " on") +
           std::string(" (") + std::to_string(fetcher_.received_bytes(blob)) + " of " +
           std::to_string(blob.size_bytes) + " bytes of the next)";
  }
  if (behind_a_peer()) return "commit records from round " + std::to_string(version()) + " on";
  if (!decider_ && !peers_.at(options_.decider).status) {
    return options_.decider + " to say where the run stands";
  }
  return {};
}

// ---- Letting go ----

bool RoundProtocol::referenced(const inter::BlobId& blob) const {
  const auto names_blob = [&blob](const auto& entry) { return entry.payload == blob; };
  if (snapshot_ && snapshot_->blob == blob) return true;
  if (target_ && target_->blob == blob) return true;
  for (const auto& [region, contribution] : contributions_) {
    if (names_blob(contribution)) return true;
  }
  for (Round round = released_; round < version(); ++round) {
    if (std::ranges::any_of(records_[round].participants, names_blob)) return true;
  }
  return false;
}

void RoundProtocol::discard(const inter::BlobId& blob) {
  if (referenced(blob)) return;
  unclaimed_.erase(blob);
  blobs_.erase(blob);
  progress_reported_at_.erase(blob);
  actions_.push_back(RemoveBlob{blob});
}

void RoundProtocol::release_old() {
  Round keep_from = version() - std::min(version(), kRoundsKept);
  keep_from = std::min(keep_from, snapshot_ ? snapshot_->version : 0);
  keep_from = std::min(keep_from, applied_ ? applied_->version : 0);
  while (released_ < keep_from) {
    const CommitRecord& record = records_[released_++];
    for (const Participant& participant : record.participants) discard(participant.payload);
  }
}

// ---- Status ----

Status RoundProtocol::status() const {
  return {.version = version(),
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
