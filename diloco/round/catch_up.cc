#include "diloco/round/catch_up.h"

#include <algorithm>
#include <set>
#include <utility>

namespace causeway::diloco {
namespace {

constexpr Round kRoundsFetched = 256;  // at once
// Snapshots that were something else, by the word of one region: none of its own is taken any more.
constexpr int kWrongMax = 3;

}  // namespace

CatchUp::CatchUp(Region& region)
    : options_(region.options),
      agreement_(region.agreement),
      history_(region.history),
      contributions_(region.contributions),
      peers_(region.peers),
      worker_(region.worker),
      spool_(region.spool),
      fetcher_(region.fetcher),
      out_(region.out) {}

// ---- Questions ----

bool CatchUp::can_replay(Round from) const {
  const Round missing = spool_.first_missing(from);
  return missing == history_.version() || peers_.any_has_payloads(missing);
}

bool CatchUp::replays_in_vain(Round from) const {
  const Round missing = spool_.first_missing(from);
  if (missing == history_.version()) return false;
  const auto& listed = history_.record(missing).participants;
  return std::ranges::any_of(listed, [this](const Participant& participant) {
    return !spool_.holds(participant.payload) && fetcher_.in_vain(participant.payload);
  });
}

std::vector<inter::BlobId> CatchUp::missing_in_vain() const {
  if (!worker_.ready() || worker_.distrusted() || spool_.target()) return {};
  const Round applied = worker_.applied()->version;
  if (applied >= history_.version() || own_snapshot_helps()) return {};
  std::vector<inter::BlobId> missing;
  for (const Participant& one : history_.record(applied).participants) {
    if (spool_.holds(one.payload)) continue;
    const bool nowhere = fetcher_.nobody_has(one.payload, peers_.up());
    if (!nowhere && !fetcher_.in_vain(one.payload) && !peers_.up().empty()) return {};
    missing.push_back(one.payload);
  }
  return missing;
}

bool CatchUp::trusted(const Snapshot& snapshot) const {
  const std::optional<Origin>& origin = agreement_.origin();
  if (snapshot.version > history_.version()) return false;
  if (snapshot.version == 0 && origin) return snapshot.state == origin->state;
  if (snapshot.version == history_.version())
    return !worker_.distrusted() || most_others_hold({snapshot.version, snapshot.state});
  return history_.record(snapshot.version).state == snapshot.state;
}

// No record says what the last version is: who is wrong itself goes by what most others hold.
bool CatchUp::most_others_hold(const Applied& state) const {
  const std::set<std::string> regions = agreement_.members().regions();
  const auto holders = std::ranges::count_if(regions, [&](const std::string& name) {
    const Status* status = peers_.status(name);
    return name != options_.self && status != nullptr && status->applied == state;
  });
  return 2 * static_cast<std::size_t>(holders) + 1 > regions.size();
}

bool CatchUp::helps(const Snapshot& snapshot) const {
  const bool leads_on = worker_.distrusted() || snapshot.version > worker_.applied()->version;
  return leads_on && trusted(snapshot) && can_replay(snapshot.version);
}

// ---- Snapshots ----

void CatchUp::confirm_snapshot() {
  if (spool_.offered() && spool_.offered()->version == 0 && history_.version() == 0)
    return confirm_initial();
  if (!spool_.offered() || spool_.offered()->version >= history_.version()) return;
  const Snapshot offered = spool_.take_offered();
  if (!trusted(offered)) return spool_.discard(offered.blob);
  spool_.adopt(offered);
}

// No record says yet what the run begins with: the log may, and until it does it is what this
// region's worker holds.
void CatchUp::confirm_initial() {
  const Snapshot offered = spool_.take_offered();
  const std::optional<Origin>& origin = agreement_.origin();
  const std::optional<Applied>& applied = worker_.applied();
  const bool right =
      origin ? offered.state == origin->state : applied && *applied == Applied{0, offered.state};
  right ? spool_.adopt(offered) : spool_.discard(offered.blob);
}

void CatchUp::confirm_final_snapshot() {
  const std::optional<Snapshot>& offered = spool_.offered();
  if (!offered || !worker_.applied() || offered->version != history_.version()) return;
  if (offered->state == worker_.applied()->state) spool_.adopt_offered_at_end();
}

void CatchUp::on_checked(const Snapshot& snapshot, bool right) {
  if (checking_ == snapshot) checking_.reset();
  if (!right) return refuse(snapshot);
  if (spool_.target() == snapshot && spool_.holds(snapshot.blob)) spool_.adopt_target();
}

// Its bytes may be something that others name.
void CatchUp::refuse(const Snapshot& snapshot) {
  refused_.insert(snapshot);
  if (spool_.target() != snapshot) return;
  for (const std::string& peer : announcers_) ++wrong_announced_[peer];
  spool_.drop_target();
}

void CatchUp::check_state() {
  check_origin();
  const std::optional<Applied>& applied = worker_.applied();
  if (!applied || !worker_.attached()) return;
  // It would wait for records that will never come.
  const Raft& raft = agreement_.raft();
  const bool knows_all =
      raft.up_to_date() || (raft.leads() && raft.committed() == raft.log().last());
  if (applied->version > history_.version() && knows_all) return worker_.distrust();
  if (applied->version >= history_.version()) return;
  if (history_.record(applied->version).state != applied->state) worker_.distrust();
}

// Workers begin with initial weights; a forked run begins with another run's.
void CatchUp::check_origin() {
  const std::optional<Origin>& origin = agreement_.origin();
  const bool begins = origin && worker_.attached() && worker_.applied()->version == 0;
  if (begins && worker_.applied()->state != origin->state) worker_.distrust_initial_state();
}

// ---- Fetching ----

// One that is here stays the target, although peers go on to newer ones.
void CatchUp::choose_target() {
  if (checking_ && spool_.holds(checking_->blob)) return;
  checking_.reset();
  const std::optional<Snapshot> before = spool_.target();
  spool_.aim_at(find_target());
  const std::optional<Snapshot>& target = spool_.target();
  if (target != before) announcers_.clear();
  if (!target) return;
  for (const std::string& name : peers_.linked()) {
    const Status* status = peers_.status(name);
    if (status != nullptr && status->snapshot == target) announcers_.insert(name);
  }
  check_target();
}

void CatchUp::check_target() {
  const std::optional<Snapshot>& target = spool_.target();
  if (!target || checking_ == target || !spool_.holds(target->blob)) return;
  checking_ = target;
  out_.push(CheckSnapshot{*target});
}

// A peer's snapshot to adopt: the worker is so far behind that the payloads it would need are gone
// everywhere, or its state is wrong, and this region's own snapshot does not help. First of whoever
// announced the fewest that were something else.
std::optional<Snapshot> CatchUp::find_target() const {
  if (!worker_.attached()) return {};
  const Round applied = worker_.applied()->version;
  const bool behind =
      applied < history_.version() && (!can_replay(applied) || replays_in_vain(applied));
  if (!behind && !worker_.distrusted()) return {};
  if (own_snapshot_helps()) return {};
  std::optional<Snapshot> best;
  int wrong_of_best = 0;
  for (const std::string& name : peers_.linked()) {
    const Status* status = peers_.status(name);
    if (status == nullptr || !status->snapshot) continue;
    if (status->revision != history_.revision()) continue;  // it may be of what was taken back
    const Snapshot& offered = *status->snapshot;
    if (!may_be_taken(name, offered)) continue;
    const bool useful =
        worker_.distrusted() ? helps(offered) : offered.version > applied && trusted(offered);
    if (!useful) continue;
    if (spool_.target() == offered) return offered;  // already on its way
    const int wrong = wrong_announced_by(name) + (is_remade(offered) ? 1 : 0);
    const bool better = !best || wrong < wrong_of_best ||
                        (wrong == wrong_of_best && offered.version > best->version);
    if (!better) continue;
    best = offered;
    wrong_of_best = wrong;
  }
  return best;
}

bool CatchUp::may_be_taken(const std::string& peer, const Snapshot& offered) const {
  // Without bytes it would stand for the initial weights.
  if (offered.blob.size_bytes == 0 || fetcher_.in_vain(offered.blob)) return false;
  if (wrong_announced_by(peer) >= kWrongMax || refused_.contains(offered)) return false;
  const bool recorded =
      offered.version < history_.version() || (offered.version == 0 && agreement_.origin());
  return recorded || !contradicted({offered.version, offered.state});
}

int CatchUp::wrong_announced_by(const std::string& peer) const {
  const auto found = wrong_announced_.find(peer);
  return found == wrong_announced_.end() ? 0 : found->second;
}

// Of what the run begins with, the log names a file.
bool CatchUp::is_remade(const Snapshot& offered) const {
  const std::optional<Origin>& origin = agreement_.origin();
  return offered.version == 0 && origin && offered.blob != origin->blob;
}

// No record says what the last version is, and at the end of the run none will.
bool CatchUp::contradicted(const Applied& state) const {
  int alike = 0, otherwise = 0;
  for (const std::string& name : peers_.up()) {
    const Status* status = peers_.status(name);
    if (status == nullptr || !status->applied || status->applied->version != state.version)
      continue;
    status->applied == state ? ++alike : ++otherwise;
  }
  return otherwise > 0 && alike <= otherwise;
}

void CatchUp::fetch(Time now) {
  std::vector<Need> needs = needed();
  if (make_room_for(needs)) needs = needed();
  fetcher_.set_wanted(fitting(needs), now);
  for (Fetcher::Request& request : fetcher_.due(peers_.linked(), now)) {
    out_.push(FetchBlob{std::move(request.peer), request.blob});
  }
}

void CatchUp::expect(const inter::BlobId& payload, const std::string& peer, Time now) {
  // fetch() would ask for it at once.
  auto wanted = fitting(needed());
  const auto expected = wanted.find(payload);
  if (expected == wanted.end()) return;
  expected->second = {.source = peer, .under_way = true};
  fetcher_.set_wanted(wanted, now);
}

// What matters most comes first.
std::vector<CatchUp::Need> CatchUp::needed() const {
  std::vector<Need> needs;
  if (options_.witness) return needs;
  add_target(needs);
  const Round from = replay_from(), later = needed_later_from();
  add_listed(needs, from, later, true);
  const bool waits_for_others = from == history_.version();  // its worker has applied all there is
  for (const auto& [key, contribution] : contributions_.open()) {
    if (contribution.sits_out || spool_.holds(contribution.payload)) continue;
    needs.push_back(
        {.blob = contribution.payload, .source = key.region, .urgent = waits_for_others});
  }
  add_listed(needs, later, std::min(history_.version(), from + kRoundsFetched), false);
  return needs;
}

void CatchUp::add_target(std::vector<Need>& needs) const {
  const std::optional<Snapshot>& target = spool_.target();
  if (!target || spool_.holds(target->blob)) return;
  const auto offers = [&](const std::string& name) {
    const Status* status = peers_.status(name);
    return status != nullptr && status->snapshot == target;
  };
  const std::set<std::string>& linked = peers_.linked();
  const auto source = std::ranges::find_if(linked, offers);
  if (source != linked.end())
    needs.push_back({.blob = target->blob, .source = *source, .urgent = true});
}

// The worker applies them in order: behind what nobody has, none is of use that nobody is known to
// have. A snapshot leads on.
void CatchUp::add_listed(std::vector<Need>& needs, Round from, Round to, bool urgent) const {
  const bool leads_on = urgent || can_replay(from);
  for (Round round = from; round < to; ++round) {
    if (!leads_on && !peers_.any_has_payloads(round)) continue;
    for (const Participant& participant : history_.record(round).participants) {
      if (spool_.holds(participant.payload)) continue;
      needs.push_back({.blob = participant.payload,
                       .source = peers_.holder_of(participant.region, round),
                       .urgent = urgent});
    }
  }
}

// The first round whose payloads the worker is to apply.
Round CatchUp::replay_from() const {
  if (spool_.target()) return spool_.target()->version;
  if (!worker_.attached()) return history_.kept_from();
  const std::optional<Snapshot>& snapshot = spool_.snapshot();
  Round from = std::min(worker_.applied()->version, history_.version());
  if (worker_.distrusted()) from = own_snapshot_helps() ? snapshot->version : 0;
  if (snapshot && !can_replay(from)) from = std::max(from, snapshot->version);
  return from;
}

// What it needs no sooner must not take the room of what it needs next.
Round CatchUp::needed_later_from() const {
  return std::min(history_.version(), replay_from() + 2 * options_.pace.fragments);
}

// ---- Room ----

// What does not fit is not asked for, so that no peer sends it in vain. What has begun has its
// room.
std::map<inter::BlobId, Fetcher::Want> CatchUp::fitting(const std::vector<Need>& needs) const {
  std::map<inter::BlobId, Fetcher::Want> wanted;
  std::uint64_t room = spool_.room_bytes();
  for (const Need& need : needs) {
    const auto [want, added] = wanted.try_emplace(need.blob);
    if (!added) continue;
    const std::uint64_t bytes = spool_.begun().contains(need.blob) ? 0 : need.blob.size_bytes;
    const std::uint64_t spare = need.urgent || bytes == 0 ? 0 : kept_free_bytes();
    const bool fits = bytes <= room && room - bytes >= spare;
    if (fits) {
      want->second.source = need.source;
    } else {
      wanted.erase(want);
    }
    if (fits || need.urgent) room -= std::min(bytes, room);
  }
  return wanted;
}

// For what the worker makes next.
std::uint64_t CatchUp::kept_free_bytes() const {
  std::uint64_t bytes = 0;
  if (spool_.snapshot() && !spool_.offered()) bytes += spool_.snapshot()->blob.size_bytes;
  if (contributions_.newest_own() && contributions_.own(history_.version()) == nullptr)
    bytes += contributions_.newest_own()->payload.size_bytes;
  return bytes;
}

// Returns whether room lacked: other things may be needed now.
bool CatchUp::make_room_for(const std::vector<Need>& needs) {
  std::set<inter::BlobId> urgent;
  for (const Need& need : needs) {
    if (need.urgent && !spool_.begun().contains(need.blob)) urgent.insert(need.blob);
  }
  std::uint64_t bytes = 0;
  for (const inter::BlobId& blob : urgent) bytes += blob.size_bytes;
  if (spool_.room_bytes() >= bytes) return false;
  make_room(bytes);
  return true;
}

// In this order: what has begun and is not needed, payloads of rounds that the worker will not
// apply, those of rounds that it applies last, and what has begun and can wait. One whose state is
// made again lets go of no round: others may be doubted with it, and count on what is here.
void CatchUp::make_room(std::uint64_t bytes) {
  const auto lacks = [&] { return spool_.room_bytes() < bytes; };
  if (!lacks()) return;
  const std::vector<Need> needs = needed();
  give_up_begun(bytes, [&](const inter::BlobId& blob) {
    return std::ranges::find(needs, blob, &Need::blob) == needs.end();
  });
  if (worker_.attached() && !worker_.heals()) {
    const Round later = needed_later_from(), behind = std::min(replay_from(), later);
    for (Round round = spool_.released(); round < behind && lacks(); ++round) {
      if (!is_of_use(round)) give_up_listed(round);
    }
    for (Round round = history_.version(); round > later && lacks();) {
      if (held_elsewhere(--round)) give_up_listed(round);
    }
  }
  give_up_begun(bytes, [&](const inter::BlobId& blob) {
    return std::ranges::none_of(needs,
                                [&](const Need& need) { return need.urgent && need.blob == blob; });
  });
}

void CatchUp::give_up_begun(std::uint64_t bytes,
                            const std::function<bool(const inter::BlobId&)>& can_go) {
  const std::set<inter::BlobId> begun = spool_.begun();
  for (const inter::BlobId& blob : begun) {
    if (spool_.room_bytes() >= bytes) return;
    if (can_go(blob)) spool_.give_up(blob);
  }
}

void CatchUp::give_up_listed(Round round) {
  for (const Participant& participant : history_.record(round).participants) {
    const inter::BlobId& payload = participant.payload;
    const bool here = spool_.holds(payload) || spool_.begun().contains(payload);
    // What an open contribution names too is counted on.
    if (here && !contributions_.names(payload) && spool_.listed_in(payload) == round)
      spool_.give_up(payload);
  }
}

// To somebody who may come to need this region's payloads of it. With a snapshot to adopt it lies
// before a gap that nobody can fill: whoever stands there needs a snapshot, too.
bool CatchUp::is_of_use(Round round) const {
  if (spool_.target()) return false;
  const auto past_it = std::ranges::count_if(peers_.up(), [&](const std::string& name) {
    const Status* status = peers_.status(name);
    const bool has_snapshot =
        status != nullptr && status->snapshot && status->snapshot->version > round;
    return is_past(name, round) && (has_snapshot || peers_.has_payloads(name, round));
  });
  return !are_enough(past_it);
}

// Only whoever has applied them keeps them for sure: others may be about to let go of them too, and
// count on us.
bool CatchUp::held_elsewhere(Round round) const {
  return are_enough(std::ranges::count_if(peers_.up(), [&](const std::string& name) {
    return is_past(name, round) && peers_.has_payloads(name, round);
  }));
}

bool CatchUp::is_past(const std::string& peer, Round round) const {
  const Status* status = peers_.status(peer);
  return status != nullptr && status->applied && status->applied->version > round &&
         agreement_.members().regions().contains(peer);
}

// Everybody else, or two: more than the leader counts on when it lists a payload.
bool CatchUp::are_enough(std::ptrdiff_t others) const {
  const auto regions = static_cast<std::ptrdiff_t>(agreement_.members().regions().size());
  return others >= 2 || others + 1 >= regions;
}

}  // namespace causeway::diloco
