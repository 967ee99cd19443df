#include "diloco/round/catch_up.h"

#include <algorithm>
#include <set>
#include <utility>

namespace causeway::diloco {
namespace {

constexpr Round kRoundsFetched = 256;  // at once

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
  if (snapshot.version == history_.version()) return !worker_.distrusted();
  return history_.record(snapshot.version).state == snapshot.state;
}

bool CatchUp::helps(const Snapshot& snapshot) const {
  const bool leads_on = worker_.distrusted() || snapshot.version > worker_.applied()->version;
  return leads_on && trusted(snapshot) && can_replay(snapshot.version);
}

// ---- Snapshots ----

void CatchUp::confirm_snapshot() {
  if (!spool_.offered() || spool_.offered()->version >= history_.version()) return;
  const Snapshot offered = spool_.take_offered();
  if (!trusted(offered)) return spool_.discard(offered.blob);
  spool_.adopt(offered);
}

void CatchUp::confirm_final_snapshot() {
  const std::optional<Snapshot>& offered = spool_.offered();
  if (!offered || !worker_.applied() || offered->version != history_.version()) return;
  if (offered->state == worker_.applied()->state) spool_.adopt_offered_at_end();
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

bool CatchUp::choose_target() {
  spool_.aim_at(find_target());
  return spool_.target() && spool_.holds(spool_.target()->blob);
}

// A peer's snapshot to adopt: the worker is so far behind that the payloads it would need are gone
// everywhere, or its state is wrong, and this region's own snapshot does not help.
std::optional<Snapshot> CatchUp::find_target() const {
  if (!worker_.attached()) return {};
  const Round applied = worker_.applied()->version;
  const bool behind =
      applied < history_.version() && (!can_replay(applied) || replays_in_vain(applied));
  if (!behind && !worker_.distrusted()) return {};
  if (own_snapshot_helps()) return {};
  std::optional<Snapshot> best;
  for (const std::string& name : peers_.up()) {
    const Status* status = peers_.status(name);
    if (status == nullptr || !status->snapshot) continue;
    if (status->revision != history_.revision()) continue;  // it may be of what was taken back
    const Snapshot& offered = *status->snapshot;
    if (fetcher_.in_vain(offered.blob)) continue;
    const bool useful =
        worker_.distrusted() ? helps(offered) : offered.version > applied && trusted(offered);
    if (!useful) continue;
    if (spool_.target() == offered) return offered;  // already on its way
    if (!best || offered.version > best->version) best = offered;
  }
  return best;
}

void CatchUp::fetch(Time now) {
  fetcher_.set_wanted(needed(), now);
  for (Fetcher::Request& request : fetcher_.due(peers_.up(), now)) {
    out_.push(FetchBlob{std::move(request.peer), request.blob});
  }
}

void CatchUp::expect(const inter::BlobId& payload, const std::string& peer, Time now) {
  // fetch() would ask for it at once.
  auto wanted = needed();
  wanted[payload] = {.source = peer, .under_way = true};
  fetcher_.set_wanted(wanted, now);
}

std::map<inter::BlobId, Fetcher::Want> CatchUp::needed() const {
  std::map<inter::BlobId, Fetcher::Want> wanted;
  if (options_.witness) return wanted;
  for (const auto& [key, contribution] : contributions_.open()) {
    if (contribution.sits_out || spool_.holds(contribution.payload)) continue;
    wanted.try_emplace(contribution.payload, Fetcher::Want{.source = key.region});
  }
  add_listed(wanted);
  const std::optional<Snapshot>& target = spool_.target();
  if (!target || spool_.holds(target->blob)) return wanted;
  for (const std::string& name : peers_.up()) {
    const Status* status = peers_.status(name);
    if (status == nullptr || status->snapshot != target) continue;
    wanted.try_emplace(target->blob, Fetcher::Want{.source = name});
  }
  return wanted;
}

// The worker applies them in order.
void CatchUp::add_listed(std::map<inter::BlobId, Fetcher::Want>& wanted) const {
  const Round from = replay_from();
  const Round to = std::min(history_.version(), from + rounds_fetched());
  for (Round round = from; round < to; ++round) {
    for (const Participant& participant : history_.record(round).participants) {
      if (spool_.holds(participant.payload)) continue;
      wanted.try_emplace(participant.payload,
                         Fetcher::Want{.source = peers_.holder_of(participant.region, round)});
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

// At once. If not all fits, those that the worker applies next: what comes later must not take
// their room.
Round CatchUp::rounds_fetched() const {
  return spool_.crowded() ? 2 * options_.pace.fragments : kRoundsFetched;
}

// By everybody else, or by two: more than the leader counts on when it lists a payload. Only
// whoever has applied them keeps them for sure: others may be about to let go of them too, and
// count on us.
bool CatchUp::held_elsewhere(Round round) const {
  const std::set<std::string> regions = agreement_.members().regions();
  const auto holders = std::ranges::count_if(peers_.up(), [&](const std::string& name) {
    const Status* status = peers_.status(name);
    const bool past_it = status != nullptr && status->applied && status->applied->version > round;
    return past_it && regions.contains(name) && peers_.has_payloads(name, round);
  });
  return holders >= 2 || static_cast<std::size_t>(holders) + 1 >= regions.size();
}

// A worker that is behind would wait for room that only it can make, if later rounds filled the
// spool before it has what it needs next. They are asked for again when their turn comes. One whose
// state is made again lets go of nothing: others may be doubted with it, and count on what is here.
void CatchUp::release_later() {
  if (!worker_.attached() || worker_.heals() || !spool_.crowded()) return;
  const Round later = replay_from() + rounds_fetched();
  // Of what is here, not of what is listed: a joiner may have a long log to go.
  std::set<inter::BlobId> here = spool_.blobs();
  for (const inter::BlobId& blob : fetcher_.wanted()) {
    if (fetcher_.received_bytes(blob) > 0) here.insert(blob);
  }
  for (const inter::BlobId& blob : here) {
    const std::optional<Round> round = spool_.listed_in(blob);
    if (!round || *round < later || !held_elsewhere(*round)) continue;
    spool_.drop(blob);
    spool_.forget_progress(blob);
    out_.push(RemoveBlob{blob});
  }
}

}  // namespace causeway::diloco
