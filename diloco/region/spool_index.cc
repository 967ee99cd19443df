#include "diloco/region/spool_index.h"

#include <algorithm>
#include <functional>
#include <iterator>

namespace causeway::diloco {
namespace {

// A region on slow links comes nearer slowly: by the tenth of a round in each, if its links carry a
// tenth more than the run makes.
constexpr std::uint64_t kBehindMax = 16;
// Rounds. Whoever joins a long run lets go of all that it was not there for, and is to answer
// others meanwhile.
constexpr Round kReleasedAtOnce = 1024;

}  // namespace

void SpoolIndex::restore(std::set<inter::BlobId> blobs, const std::optional<Snapshot>& snapshot) {
  blobs_ = std::move(blobs);
  from_.reset();
  if (snapshot && holds(snapshot->blob)) snapshot_ = snapshot;
}

void SpoolIndex::claim_restored() {
  const auto none_held = [this](const CommitRecord& record) {
    return all_applied_blobs(record, [this](const inter::BlobId& blob) { return !holds(blob); });
  };
  if (history_.revision() > 0) drop_void_snapshots();
  while (released_ < history_.version() && none_held(history_.record(released_))) ++released_;
  for (Round round = released_; round < history_.version(); ++round) list(history_.record(round));
  for (const inter::BlobId& blob : blobs_) leave_unclaimed_if_unnamed(blob);
}

// ---- Blobs ----

bool SpoolIndex::holds_all(const std::vector<inter::BlobId>& blobs) const {
  return std::ranges::all_of(blobs, [this](const inter::BlobId& blob) { return holds(blob); });
}

bool SpoolIndex::holds_all(const CommitRecord& record) const {
  return all_applied_blobs(record, [this](const inter::BlobId& blob) { return holds(blob); });
}

Round SpoolIndex::first_missing(Round from) const {
  Round round = from;
  while (round < history_.version() && holds_all(history_.record(round))) ++round;
  return round;
}

Round SpoolIndex::payloads_from() const {
  if (from_ && from_->revision != history_.revision()) from_.reset();
  Round from = history_.version();
  while (from > released_) {
    if (from_ && from == from_->version) from = std::max(from_->from, released_);
    if (from == released_ || !holds_all(history_.record(from - 1))) break;
    --from;
  }
  from_ = {history_.version(), from, history_.revision()};
  return from;
}

void SpoolIndex::put(const inter::BlobId& blob) {
  blobs_.insert(blob);
  begun_.erase(blob);
}

void SpoolIndex::leave_unclaimed_if_unnamed(const inter::BlobId& blob) {
  if (!named(blob)) leave_unclaimed(blob);
}

void SpoolIndex::list(const CommitRecord& record) {
  for (const inter::BlobId& blob : applied_blobs(record)) {
    claim(blob);
    const Listed begun{.first = record.round};
    ++listed_.try_emplace(blob, begun).first->second.times;
  }
}

void SpoolIndex::unlist(const CommitRecord& record) {
  for (const inter::BlobId& blob : applied_blobs(record)) {
    const auto found = listed_.find(blob);
    if (--found->second.times == 0) listed_.erase(found);
  }
}

std::vector<inter::BlobId> SpoolIndex::unlist_from(Round round) {
  std::vector<inter::BlobId> payloads;
  for (Round listed = std::max(round, released_); listed < history_.version(); ++listed) {
    unlist(history_.record(listed));
    for (const inter::BlobId& blob : applied_blobs(history_.record(listed)))
      payloads.push_back(blob);
  }
  released_ = std::min(released_, round);
  return payloads;
}

void SpoolIndex::drop_void_snapshots() {
  for (std::optional<Snapshot>* one : {&snapshot_, &offered_, &target_})
    if (*one && history_.voids((*one)->version, (*one)->state)) drop_snapshot(*one);
  drop_older_if([this](const Snapshot& one) { return history_.voids(one.version, one.state); });
  if (aimed_ && history_.voids(aimed_->version, aimed_->state)) aimed_.reset();
}

void SpoolIndex::drop_snapshot(std::optional<Snapshot>& snapshot) {
  const inter::BlobId blob = snapshot->blob;
  snapshot.reset();
  discard(blob);
}

std::optional<Round> SpoolIndex::listed_in(const inter::BlobId& blob) const {
  const auto found = listed_.find(blob);
  return found == listed_.end() ? std::nullopt : std::optional(found->second.first);
}

bool SpoolIndex::kept(const inter::BlobId& blob) const {
  for (const auto& snapshot : {snapshot_, offered_, target_}) {
    if (snapshot && snapshot->blob == blob) return true;
  }
  return std::ranges::count(older_, blob, &Snapshot::blob) > 0 || listed_.contains(blob);
}

void SpoolIndex::discard(const inter::BlobId& blob, bool listed) {
  if (named(blob)) return;
  if (!holds(blob) && !unclaimed_.contains(blob) && options_.witness) return;
  unclaimed_.erase(blob);
  forget(blob);
  out_.push(RemoveBlob{blob, listed});
}

void SpoolIndex::forget(const inter::BlobId& blob) {
  const bool took_room = blobs_.erase(blob) + begun_.erase(blob) > 0;
  from_.reset();
  const std::uint64_t taken = std::numeric_limits<std::uint64_t>::max() - room_bytes_;
  if (took_room) room_bytes_ += std::min(blob.size_bytes, taken);
  forget_progress(blob);
}

void SpoolIndex::lose(const inter::BlobId& blob) {
  forget(blob);
  unclaimed_.erase(blob);
  for (std::optional<Snapshot>* snapshot : {&snapshot_, &offered_})
    if (*snapshot && (*snapshot)->blob == blob) snapshot->reset();
  std::erase_if(older_, [&](const Snapshot& one) { return one.blob == blob; });
}

bool SpoolIndex::may_report_progress(const inter::BlobId& blob, Time now) {
  const auto reported = progress_reported_at_.find(blob);
  if (reported != progress_reported_at_.end() && now < reported->second + kReportInterval) {
    return false;
  }
  progress_reported_at_[blob] = now;
  return true;
}

// ---- Room ----

// Some began because a peer pushed them, or before this process did.
void SpoolIndex::set_room(std::uint64_t bytes, std::set<inter::BlobId> begun) {
  room_bytes_ = bytes;
  begun_ = std::move(begun);
  for (const inter::BlobId& blob : begun_) {
    if (!unclaimed_.contains(blob)) leave_unclaimed_if_unnamed(blob);
  }
}

void SpoolIndex::give_up(const inter::BlobId& blob) {
  forget(blob);
  out_.push(RemoveBlob{blob});
}

// ---- Letting go ----

void SpoolIndex::release_old(const std::optional<Applied>& applied) {
  if (plants(options_.planted, PlantedBug::keep_everything)) return;
  Round keep_from = history_.kept_from();
  if (!options_.witness) {
    keep_from = std::min(keep_from, snapshot_ ? snapshot_->version : 0);
    keep_from = std::min({keep_from, needed_from_, applied ? applied->version : 0});
  }
  if (applied && applied->version >= history_.kept_from()) aimed_.reset();
  keep_from = std::min(keep_from, released_ + kReleasedAtOnce);
  while (released_ < keep_from) {
    const CommitRecord& record = history_.record(released_++);
    unlist(record);
    for (const inter::BlobId& blob : applied_blobs(record))
      may_be_on_disk(blob) ? discard(blob, true) : forget_progress(blob);
  }
}

// What arrives later is unclaimed.
bool SpoolIndex::may_be_on_disk(const inter::BlobId& blob) const {
  return holds(blob) || begun_.contains(blob) || unclaimed_.contains(blob);
}

void SpoolIndex::discard_stale() {
  std::vector<inter::BlobId> stale;
  for (const auto& [blob, arrived_at] : unclaimed_) {
    if (arrived_at + 2 <= history_.version()) stale.push_back(blob);
  }
  for (const inter::BlobId& blob : stale) discard(blob);
}

// ---- Snapshots ----

void SpoolIndex::adopt(const Snapshot& snapshot) {
  const std::optional<Snapshot> before = std::exchange(snapshot_, snapshot);
  out_.push(SaveSnapshot{snapshot});
  if (before && before != snapshot) older_.push_back(*before);
  judged_.reset();
}

void SpoolIndex::drop_target() {
  aimed_.reset();
  drop_snapshot(target_);
}

// Its own after a restart, too: what it holds, it goes on from.
std::vector<Snapshot> SpoolIndex::leaps(const std::optional<Applied>& applied) const {
  std::vector<Snapshot> leaps;
  if (applied && applied->version >= history_.kept_from()) return leaps;
  if (aimed_) leaps.push_back(*aimed_);
  if (snapshot_ && snapshot_ != aimed_) leaps.push_back(*snapshot_);
  return leaps;
}

void SpoolIndex::release_older(const std::map<Snapshot, Round>& leaps) {
  const std::pair by(history_.version(), leaps);
  if (older_.empty()) needed_from_ = std::numeric_limits<Round>::max();
  if (older_.empty() || judged_ == by) return;
  judged_ = by;
  drop_older_if([&](const Snapshot& one) {
    const auto leap = leaps.find(one);
    return leap == leaps.end() ||
           payload_bytes_since(leap->second) > kBehindMax * one.blob.size_bytes;
  });
  needed_from_ = std::numeric_limits<Round>::max();
  for (const Snapshot& one : older_) needed_from_ = std::min(needed_from_, leaps.at(one));
}

void SpoolIndex::drop_older_if(const std::function<bool(const Snapshot&)>& can_go) {
  std::vector<Snapshot> all = std::exchange(older_, {});
  std::ranges::copy_if(all, std::back_inserter(older_), std::not_fn(can_go));
  for (const Snapshot& one : all)
    if (can_go(one)) discard(one.blob);
}

std::uint64_t SpoolIndex::payload_bytes_since(Round from) const {
  std::uint64_t bytes = 0;
  for (Round round = std::max(from, released_); round < history_.version(); ++round)
    for (const inter::BlobId& blob : applied_blobs(history_.record(round)))
      bytes += blob.size_bytes;
  return bytes;
}

void SpoolIndex::adopt_offered_at_end() {
  snapshot_ = take_offered();
  out_.push(SaveSnapshot{*snapshot_});
}

std::optional<Round> SpoolIndex::newest_snapshot() const {
  if (offered_) return offered_->version;
  return snapshot_ ? std::optional(snapshot_->version) : std::nullopt;
}

// Peers go on to newer ones. Nobody may offer one for a while and then again.
void SpoolIndex::aim_at(const std::optional<Snapshot>& target) {
  const std::optional<Snapshot> before = std::exchange(target_, target);
  if (target) {
    claim(target->blob);
    aimed_ = target;
  }
  if (!before || before == target || !begun_.contains(before->blob)) return;
  target ? discard(before->blob) : leave_unclaimed(before->blob);
}

void SpoolIndex::offer(const Snapshot& snapshot) {
  put(snapshot.blob);
  const bool old = snapshot_ && snapshot.version <= snapshot_->version;
  if (old || offered_ == snapshot) return discard(snapshot.blob);
  // It replaces an earlier one, which may be of a state that the run took back.
  const std::optional<Snapshot> before = std::exchange(offered_, snapshot);
  claim(snapshot.blob);
  if (before) discard(before->blob);
}

}  // namespace causeway::diloco
