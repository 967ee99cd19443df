#include "diloco/round/catch_up.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace causeway::diloco {

// ---- Questions ----

bool CatchUp::replays_in_vain(Round from) const {
  const Round missing = region_.spool.first_missing(from);
  if (missing == region_.history.version()) return false;
  return !all_applied_blobs(region_.history.record(missing), [this](const inter::BlobId& blob) {
    return region_.spool.holds(blob) || !region_.fetcher.in_vain(blob);
  });
}

std::vector<inter::BlobId> CatchUp::missing_in_vain() const {
  if (!region_.worker.ready() || region_.worker.distrusted() || region_.spool.target()) return {};
  const Round applied = region_.worker.applied()->version;
  if (applied >= region_.history.version() || own_snapshot_helps()) return {};
  std::vector<inter::BlobId> missing;
  for (const inter::BlobId& blob : applied_blobs(region_.history.record(applied))) {
    if (region_.spool.holds(blob)) continue;
    const bool nowhere = region_.fetcher.nobody_has(blob, region_.peers.up());
    if (!nowhere && !region_.fetcher.in_vain(blob) && !region_.peers.up().empty()) return {};
    missing.push_back(blob);
  }
  return missing;
}

bool CatchUp::leaps() const {
  return !needs_snapshot() && chase_.in_vain() && region_.spool.snapshot() &&
         spares_rounds(*region_.spool.snapshot());
}

bool CatchUp::trusted(const Snapshot& snapshot) const {
  const std::optional<Origin>& origin = region_.agreement.origin();
  if (snapshot.version > region_.history.version()) return false;
  if (snapshot.version == 0 && origin) return snapshot.state == origin->state;
  if (snapshot.version == region_.history.version())
    return !region_.worker.distrusted() || most_others_hold({snapshot.version, snapshot.state});
  return region_.history.record(snapshot.version).state == snapshot.state;
}

// No record says what the last version is: who is wrong itself goes by what most others hold.
bool CatchUp::most_others_hold(const Applied& state) const {
  const std::set<std::string> regions = region_.agreement.members().regions();
  const auto holders = std::ranges::count_if(regions, [&](const std::string& name) {
    const Status* status = region_.peers.status(name);
    return name != region_.options.self && status != nullptr && status->applied == state;
  });
  return 2 * static_cast<std::size_t>(holders) + 1 > regions.size();
}

bool CatchUp::helps(const Snapshot& snapshot) const {
  const bool leads_on =
      region_.worker.distrusted() || snapshot.version > region_.worker.applied()->version;
  return leads_on && trusted(snapshot) && can_replay(snapshot.version);
}

// ---- Snapshots ----

void CatchUp::confirm_snapshot() {
  if (region_.spool.offered() && region_.spool.offered()->version == 0 &&
      region_.history.version() == 0)
    return confirm_initial();
  if (!region_.spool.offered() || region_.spool.offered()->version >= region_.history.version())
    return;
  const Snapshot offered = region_.spool.take_offered();
  if (!trusted(offered)) return region_.spool.discard(offered.blob);
  region_.spool.adopt(offered);
}

// No record says yet what the run begins with: the log may, and until it does it is what this
// region's worker holds.
void CatchUp::confirm_initial() {
  const Snapshot offered = region_.spool.take_offered();
  const std::optional<Origin>& origin = region_.agreement.origin();
  const std::optional<Applied>& applied = region_.worker.applied();
  const bool right =
      origin ? offered.state == origin->state : applied && *applied == Applied{0, offered.state};
  right ? region_.spool.adopt(offered) : region_.spool.discard(offered.blob);
}

void CatchUp::confirm_final_snapshot() {
  const std::optional<Snapshot>& offered = region_.spool.offered();
  if (!offered || !region_.worker.applied() || offered->version != region_.history.version())
    return;
  if (offered->state == region_.worker.applied()->state) region_.spool.adopt_offered_at_end();
}

void CatchUp::on_checked(const Snapshot& snapshot, bool right) {
  if (checking_ == snapshot) checking_.reset();
  if (!right) return refuse(snapshot);
  if (region_.spool.target() == snapshot && region_.spool.holds(snapshot.blob))
    region_.spool.adopt_target();
}

void CatchUp::refuse(const Snapshot& snapshot) {
  offers_.refuse(snapshot);
  if (region_.spool.target() == snapshot) region_.spool.drop_target();
}

void CatchUp::check_state() {
  check_origin();
  const std::optional<Applied>& applied = region_.worker.applied();
  if (!applied || !region_.worker.attached()) return;
  // It would wait for records that will never come.
  const Raft& raft = region_.agreement.raft();
  const bool knows_all =
      raft.up_to_date() || (raft.leads() && raft.committed() == raft.log().last());
  if (applied->version > region_.history.version() && knows_all) return region_.worker.distrust();
  if (applied->version >= region_.history.version()) return;
  if (region_.history.record(applied->version).state != applied->state) region_.worker.distrust();
}

// Workers begin with initial weights; a forked run begins with another run's.
void CatchUp::check_origin() {
  const std::optional<Origin>& origin = region_.agreement.origin();
  const bool begins = origin && region_.worker.attached() && region_.worker.applied()->version == 0;
  if (begins && region_.worker.applied()->state != origin->state)
    region_.worker.distrust_initial_state();
}

// ---- Fetching ----

void CatchUp::look() {
  if (!region_.worker.attached()) return chase_.stop();
  const bool before = chase_.in_vain();
  const Round applied = region_.worker.applied()->version, version = region_.history.version();
  chase_.look(applied, version);
  if (before || !chase_.in_vain() || needs_snapshot()) return;
  region_.out.note(
      Note::Severity::warning,
      fmt::format("this region is {} rounds behind, and new rounds come more than half as fast as "
                  "it applies them: it takes a snapshot as soon as one spares it {} rounds or more",
                  version - applied, chase_.window()));
}

// One that is here stays the target, although peers go on to newer ones. Without a link one that is
// on its way does too.
void CatchUp::choose_target() {
  if (checking_ && region_.spool.holds(checking_->blob)) return;
  if (region_.spool.target() && region_.peers.linked().empty()) return;
  checking_.reset();
  const std::optional<Snapshot> before = region_.spool.target();
  region_.spool.aim_at(find_target());
  const std::optional<Snapshot>& target = region_.spool.target();
  if (before && target && target != before) note_loss(*before);
  if (target != before) offers_.forget_announcers();
  if (before && target != before && !target_is_needed_) chase_.back_off();
  note_need();
  if (!target) return;
  offers_.note_announcers(*target);
  check_target();
}

void CatchUp::note_need() {
  target_is_needed_ = needs_snapshot();
  const bool stuck = target_is_needed_ && region_.spool.target();
  if (stuck) stuck_at_ = region_.spool.first_missing(region_.worker.applied()->version);
  if (!region_.spool.target()) stuck_at_.reset();
}

void CatchUp::note_loss(const Snapshot& target) {
  const std::uint64_t bytes = region_.fetcher.received_bytes(target.blob);
  if (bytes == 0) return;
  region_.out.note(
      Note::Severity::warning,
      fmt::format("a newer snapshot is fetched, because no region offers that of version {} any "
                  "more ({} of its {} bytes are here). If this repeats, the run sends more than "
                  "the links of this region carry: give it faster links, raise "
                  "train.checkpoint_rounds, or choose a codec that sends less",
                  target.version, bytes, target.blob.size_bytes));
}

void CatchUp::check_target() {
  const std::optional<Snapshot>& target = region_.spool.target();
  if (!target || checking_ == target || !region_.spool.holds(target->blob)) return;
  checking_ = target;
  region_.out.push(CheckSnapshot{*target});
}

// A peer's snapshot to adopt: the payloads that the worker would need are gone everywhere, or it
// does not come nearer with them, or its state is wrong, and this region's own snapshot does not
// help.
std::optional<Snapshot> CatchUp::find_target() const {
  if (!region_.worker.attached()) return {};
  const bool needs = needs_snapshot();
  if (!needs && !chase_.in_vain()) return target_under_way();
  if (needs ? own_snapshot_helps() : leaps()) return {};
  return offers_.best([this](const Snapshot& offered) {
    return !room_.never_fits(offered.blob) && is_of_help(offered);
  });
}

// Whoever connects may have what was missing everywhere, so that no snapshot is needed any more.
// But until that comes, one that is under way goes on beside it: over links that come and go it
// would never be whole.
std::optional<Snapshot> CatchUp::target_under_way() const {
  const std::optional<Snapshot>& target = region_.spool.target();
  if (!target || !stuck_at_ || region_.fetcher.received_bytes(target->blob) == 0) return {};
  const Round applied = region_.worker.applied()->version;
  if (region_.spool.first_missing(applied) != *stuck_at_ || !helps(*target)) return {};
  return offers_.best([&](const Snapshot& offered) { return offered == *target; });
}

// It can do nothing without one.
bool CatchUp::needs_snapshot() const {
  if (!region_.worker.attached()) return false;
  const Round applied = region_.worker.applied()->version;
  return region_.worker.distrusted() || (applied < region_.history.version() &&
                                         (!can_replay(applied) || replays_in_vain(applied)));
}

bool CatchUp::is_of_help(const Snapshot& offered) const {
  if (region_.worker.distrusted()) return helps(offered);
  if (needs_snapshot())
    return offered.version > region_.worker.applied()->version && trusted(offered);
  return spares_rounds(offered) &&
         (region_.spool.target() == offered || is_worth_its_bytes(offered));
}

// Enough of them: a snapshot costs the residual. A record says what it is to hold.
bool CatchUp::spares_rounds(const Snapshot& snapshot) const {
  return snapshot.version >= region_.worker.applied()->version + chase_.window() &&
         snapshot.version < region_.history.version() && trusted(snapshot) &&
         can_replay(snapshot.version);
}

// It travels beside the payloads, which the worker goes on to apply.
bool CatchUp::is_worth_its_bytes(const Snapshot& offered) const {
  std::uint64_t missing_bytes = 0;
  for (Round round = region_.worker.applied()->version; round < offered.version; ++round) {
    for (const inter::BlobId& blob : applied_blobs(region_.history.record(round)))
      missing_bytes += region_.spool.holds(blob) ? 0 : blob.size_bytes;
  }
  return missing_bytes == 0 || missing_bytes >= 2 * offered.blob.size_bytes;
}

void CatchUp::fetch(Time now) {
  Needs needs = needed();
  if (room_.make_for(needs)) needs = needed();
  want(room_.fitting(needs.blobs), now);
  for (Fetcher::Request& request : region_.fetcher.due(region_.peers.linked(), now)) {
    region_.out.push(FetchBlob{std::move(request.peer), request.blob});
  }
}

void CatchUp::make_room(std::uint64_t bytes) {
  if (room_.lacks(bytes)) room_.make(bytes, needed());
}

void CatchUp::expect(const inter::BlobId& payload, const std::string& peer, Time now) {
  // fetch() would ask for it at once.
  auto wanted = room_.fitting(needed().blobs);
  const auto expected = wanted.find(payload);
  if (expected == wanted.end()) return;
  expected->second.source = peer;
  expected->second.under_way = true;
  want(wanted, now);
}

// What peers are about to send and the region needs no more would hold up what it needs. What that
// is nobody knows while its worker is away.
void CatchUp::want(const std::map<inter::BlobId, Fetcher::Want>& wanted, Time now) {
  for (Fetcher::Request& forgone : region_.fetcher.set_wanted(wanted, now)) {
    if (!region_.worker.attached() || region_.spool.holds(forgone.blob)) continue;
    region_.fetcher.note_forgone(forgone.blob);
    region_.out.push(ForgoBlob{std::move(forgone.peer), forgone.blob});
  }
}

Needs CatchUp::needed() const {
  if (region_.options.witness) return {};
  const std::optional<Snapshot>& target = region_.spool.target();
  const bool leap = target && needs_snapshot();
  const auto source = target ? offers_.source_of(*target) : std::nullopt;
  std::optional<Need> snapshot;
  if (source && !region_.spool.holds(target->blob))
    snapshot = Need{.blob = target->blob, .source = *source, .urgent = leap, .first = leap};
  Needs needs = needs_of(region_, replay_from(), leap, snapshot);
  // No room that is made for it would do.
  std::erase_if(needs.blobs, [this](const Need& need) { return room_.never_fits(need.blob); });
  return needs;
}

// The first round whose payloads the worker is to apply.
Round CatchUp::replay_from() const {
  if (region_.spool.target() && needs_snapshot()) return region_.spool.target()->version;
  if (!region_.worker.attached()) return region_.history.kept_from();
  const std::optional<Snapshot>& snapshot = region_.spool.snapshot();
  Round from = std::min(region_.worker.applied()->version, region_.history.version());
  if (region_.worker.distrusted()) from = own_snapshot_helps() ? snapshot->version : 0;
  if (snapshot && !can_replay(from)) from = std::max(from, snapshot->version);
  return from;
}

}  // namespace causeway::diloco
