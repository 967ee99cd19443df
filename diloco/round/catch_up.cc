#include "diloco/round/catch_up.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace causeway::diloco {
namespace {

constexpr Round kRoundsFetched = 256;  // at once
// Snapshots that were something else, by the word of one region: none of its own is taken any more.
constexpr int kWrongMax = 3;

// Its newest, or one that it keeps for whoever fetches it.
bool offers(const Status& peer, const Snapshot& snapshot) {
  return peer.snapshot == snapshot || std::ranges::count(peer.older, snapshot) > 0;
}

}  // namespace

// ---- Questions ----

bool CatchUp::can_replay(Round from) const {
  const Round missing = region_.spool.first_missing(from);
  if (missing == region_.history.version() || region_.peers.any_has_payloads(missing)) return true;
  // The record came before the word of those that have what it lists.
  const bool newest = missing + 1 == region_.history.version();
  return newest && region_.peers.any_has_newest_payloads(missing);
}

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

// Its bytes may be something that others name.
void CatchUp::refuse(const Snapshot& snapshot) {
  refused_.insert(snapshot);
  if (region_.spool.target() != snapshot) return;
  for (const std::string& peer : announcers_) ++wrong_announced_[peer];
  region_.spool.drop_target();
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
      fmt::format("this region is {} rounds behind, and the run makes new ones more than half as "
                  "quickly as they are applied here: a snapshot that spares it {} or more is taken "
                  "as soon as there is one",
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
  if (target != before) announcers_.clear();
  if (before && target != before && !target_is_needed_) chase_.back_off();
  target_is_needed_ = needs_snapshot();
  if (!target) return;
  for (const std::string& name : region_.peers.linked()) {
    const Status* status = region_.peers.status(name);
    if (status != nullptr && offers(*status, *target)) announcers_.insert(name);
  }
  check_target();
}

void CatchUp::note_loss(const Snapshot& target) {
  const std::uint64_t bytes = region_.fetcher.received_bytes(target.blob);
  if (bytes == 0) return;
  region_.out.note(
      Note::Severity::warning,
      fmt::format("nobody offers the snapshot of version {} any more, of which {} of {} bytes are "
                  "here: a newer one is fetched. If this is said again and again, the run sends "
                  "more than the links of this region carry: give it faster links, raise "
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
// help. First of whoever announced the fewest that were something else.
std::optional<Snapshot> CatchUp::find_target() const {
  if (!region_.worker.attached()) return {};
  const bool needs = needs_snapshot();
  if (!needs && !chase_.in_vain()) return {};
  if (needs ? own_snapshot_helps() : leaps()) return {};
  std::optional<Snapshot> best;
  int wrong_of_best = 0;
  for (const std::string& name : region_.peers.linked()) {
    const Status* status = region_.peers.status(name);
    if (status == nullptr || !status->snapshot) continue;
    if (status->revision != region_.history.revision())
      continue;  // it may be of what was taken back
    const std::optional<Snapshot> begun = begun_of(*status);
    const Snapshot offered = begun.value_or(*status->snapshot);
    if (!may_be_taken(name, offered) || !is_of_help(offered)) continue;
    if (begun) return offered;
    const int wrong = wrong_announced_by(name) + (is_remade(offered) ? 1 : 0);
    const bool better = !best || wrong < wrong_of_best ||
                        (wrong == wrong_of_best && offered.version > best->version);
    if (!better) continue;
    best = offered;
    wrong_of_best = wrong;
  }
  return best;
}

// That it offers and that is on its way here, or was before this process started.
std::optional<Snapshot> CatchUp::begun_of(const Status& peer) const {
  const std::optional<Snapshot>& target = region_.spool.target();
  if (target && offers(peer, *target)) return target;
  const auto one = std::ranges::find_if(peer.older, [this](const Snapshot& older) {
    return region_.spool.begun().contains(older.blob);
  });
  return one == peer.older.end() ? std::nullopt : std::optional(*one);
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

bool CatchUp::may_be_taken(const std::string& peer, const Snapshot& offered) const {
  // Without bytes it would stand for the initial weights.
  if (offered.blob.size_bytes == 0 || room_.never_fits(offered.blob)) return false;
  if (region_.fetcher.in_vain(offered.blob)) return false;
  if (wrong_announced_by(peer) >= kWrongMax || refused_.contains(offered)) return false;
  const bool recorded = offered.version < region_.history.version() ||
                        (offered.version == 0 && region_.agreement.origin());
  return recorded || !contradicted({offered.version, offered.state});
}

int CatchUp::wrong_announced_by(const std::string& peer) const {
  const auto found = wrong_announced_.find(peer);
  return found == wrong_announced_.end() ? 0 : found->second;
}

// Of what the run begins with, the log names a file.
bool CatchUp::is_remade(const Snapshot& offered) const {
  const std::optional<Origin>& origin = region_.agreement.origin();
  return offered.version == 0 && origin && offered.blob != origin->blob;
}

// No record says what the last version is, and at the end of the run none will.
bool CatchUp::contradicted(const Applied& state) const {
  int alike = 0, otherwise = 0;
  for (const std::string& name : region_.peers.up()) {
    const Status* status = region_.peers.status(name);
    if (status == nullptr || !status->applied || status->applied->version != state.version)
      continue;
    status->applied == state ? ++alike : ++otherwise;
  }
  return otherwise > 0 && alike <= otherwise;
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

// What peers are about to send and the region needs no more would hold up what it needs.
void CatchUp::want(const std::map<inter::BlobId, Fetcher::Want>& wanted, Time now) {
  for (Fetcher::Request& forgone : region_.fetcher.set_wanted(wanted, now)) {
    if (!region_.spool.holds(forgone.blob))
      region_.out.push(ForgoBlob{std::move(forgone.peer), forgone.blob});
  }
}

Needs CatchUp::needed() const {
  Needs needs;
  if (region_.options.witness) return needs;
  std::vector<Need>& blobs = needs.blobs;
  const Round version = region_.history.version();
  needs.leap = region_.spool.target() && needs_snapshot();
  needs.from = replay_from();
  // What it needs no sooner must not take the room of what it needs next.
  needs.later = std::min(version, needs.from + 2 * region_.options.pace.fragments);
  if (needs.leap) add_target(blobs, true);
  add_listed(blobs, needs.from, needs.later, true);
  const bool waits_for_others = needs.from == version;  // its worker has applied all there is
  add_open(blobs, waits_for_others);
  const std::vector<inter::BlobId> sums = region_.shards.sums();
  for (std::uint32_t i = 0; i < sums.size(); ++i) {
    if (!region_.spool.holds(sums[i]))
      blobs.push_back(
          {.blob = sums[i], .source = region_.shards.maker_of_sum(i), .urgent = waits_for_others});
  }
  add_listed(blobs, needs.later, std::min(version, needs.from + kRoundsFetched), false);
  if (!needs.leap) add_target(blobs, false);
  // No room that is made for it would do.
  std::erase_if(blobs, [this](const Need& need) { return room_.never_fits(need.blob); });
  return needs;
}

// Not in the order of names: whoever names something large would take the room of all behind it.
void CatchUp::add_open(std::vector<Need>& needs, bool urgent) const {
  std::vector<Need> open;
  for (const auto& [key, contribution] : region_.contributions.open()) {
    if (region_.exceeds_share(contribution)) continue;
    const std::uint64_t claimed_bytes = region_.claimed_bytes(contribution);
    for (const inter::BlobId& blob : region_.shards.due(contribution)) {
      if (!region_.spool.holds(blob)) open.push_back({blob, key.region, urgent, claimed_bytes});
    }
  }
  std::ranges::stable_sort(open, {}, &Need::claimed_bytes);
  needs.insert(needs.end(), open.begin(), open.end());
}

void CatchUp::add_target(std::vector<Need>& needs, bool urgent) const {
  const std::optional<Snapshot>& target = region_.spool.target();
  if (!target || region_.spool.holds(target->blob)) return;
  const auto has_it = [&](const std::string& name) {
    const Status* status = region_.peers.status(name);
    return status != nullptr && offers(*status, *target);
  };
  const std::set<std::string>& linked = region_.peers.linked();
  const auto source = std::ranges::find_if(linked, has_it);
  if (source != linked.end())
    needs.push_back({.blob = target->blob, .source = *source, .urgent = urgent, .first = urgent});
}

// The worker applies them in order: behind what nobody has, none is of use that nobody is known to
// have. A snapshot leads on.
void CatchUp::add_listed(std::vector<Need>& needs, Round from, Round to, bool urgent) const {
  const bool leads_on = urgent || can_replay(from);
  for (Round round = from; round < to; ++round) {
    if (!leads_on && !region_.peers.any_has_payloads(round)) continue;
    const std::vector<std::string> sources = sources_of(round);
    const std::vector<inter::BlobId> blobs = applied_blobs(region_.history.record(round));
    for (std::size_t i = 0; i < blobs.size(); ++i) {
      if (region_.spool.holds(blobs[i])) continue;
      needs.push_back({.blob = blobs[i],
                       .source = region_.peers.holder_of(sources[i], round),
                       .urgent = urgent});
    }
  }
}

// Of what its record needs to be applied: who made each.
std::vector<std::string> CatchUp::sources_of(Round round) const {
  std::vector<std::string> sources;
  const CommitRecord& record = region_.history.record(round);
  if (record.sums.empty()) {
    for (const Participant& one : record.participants) sources.push_back(one.region);
    return sources;
  }
  const auto count = static_cast<std::uint32_t>(record.sums.size());
  const CommitRecord* before = round == 0 ? nullptr : &region_.history.record(round - 1);
  const Summers summers(before, region_.agreement.members());
  for (std::uint32_t shard = 0; shard < count; ++shard) sources.push_back(summers.first(shard));
  return sources;
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
