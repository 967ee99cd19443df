#include "diloco/round/exchange.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace causeway::diloco {
namespace {

// A peer that passes on another's contribution may know of this many records more.
constexpr Round kRecordsAhead = 2;

}  // namespace

// ---- This region's own ----

void Exchange::add_own(const Contribution& made, Time now) {
  const ContributionKey key = key_of(made);
  assert(key.region == region_.options.self && made.run_id == region_.history.run_id());
  const std::vector<inter::BlobId> blobs = blobs_of(made);
  for (const inter::BlobId& blob : blobs) region_.spool.put(blob);
  if (key.part > 0) region_.worker.drop_more();
  region_.worker.correct_state(key.round, made.state);
  if (const Contribution* known = region_.contributions.find(key)) {
    if (known->payload != made.payload) discard(blobs);
    return;
  }
  const Contribution stamped = region_.contributions.add_own(made, now);
  if (!region_.contributions.is_open(stamped)) return discard(blobs);
  for (const inter::BlobId& blob : blobs) region_.spool.claim(blob);
  announce(stamped);
  if (leader_.leads()) report(stamped, stamped.payload.size_bytes, now);
  // Regions that did the same work made the same bytes, which do not arrive once more.
  for (const auto& [other, contribution] : region_.contributions.open()) {
    const bool same = other != key && contribution.payload == stamped.payload;
    if (same) report(contribution, region_.held_bytes(contribution), now);
  }
}

void Exchange::discard(const std::vector<inter::BlobId>& blobs) {
  for (const inter::BlobId& blob : blobs) region_.spool.discard(blob);
}

void Exchange::announce(const Contribution& contribution) {
  for (const std::string& peer : region_.peers.up()) {
    const bool pushed = region_.takes_pushes(peer);
    region_.peers.send(peer, Holding{contribution, contribution.payload.size_bytes, pushed});
    if (pushed) push(peer, contribution);
  }
}

void Exchange::push(const std::string& peer, const Contribution& contribution) {
  const std::vector<inter::BlobId> blobs = blobs_of(contribution);
  const Summers& summers = region_.shards.summers();
  for (std::uint32_t i = 0; i < blobs.size(); ++i) {
    if (contribution.shards.empty() || summers.sums(peer, i))
      region_.out.push(PushBlob{peer, blobs[i]});
  }
}

void Exchange::time_outcome(Time now) {
  const std::optional<Round> awaited = region_.contributions.awaited();
  if (awaited && region_.spool.holds_all(region_.history.record(*awaited)))
    region_.contributions.outcome_is_here(now);
}

// ---- Others' ----

void Exchange::hear(const std::string& peer, const Holding& holding, Time now) {
  const ContributionKey key = key_of(holding.contribution);
  const Contribution* before = region_.contributions.find(key);
  const bool made_again = before != nullptr && before->payload != holding.contribution.payload;
  if (region_.history.run_id().empty() ||
      !region_.peers.reads_the_log_as(peer, region_.history.revision()))
    return;
  if (!region_.contributions.judge(peer, holding.contribution, region_.agreement.members())) return;
  if (!is_news(peer, holding.contribution)) return;
  // What is known of another region's contribution, nobody else can change.
  const Contribution* known = peer == key.region ? nullptr : region_.contributions.find(key);
  const Contribution contribution = known == nullptr ? holding.contribution : *known;
  region_.contributions.put(contribution);
  const std::vector<inter::BlobId> due = region_.shards.due(contribution);
  for (const inter::BlobId& blob : due) region_.spool.claim(blob);
  region_.contributions.set_held(key, peer, holding.received_bytes);
  leader_.hear(contribution, peer, holding.received_bytes, now);
  // Others may have heard of it sooner; their word was of something unknown. They say it again.
  if (made_again && peer == key.region && leader_.leads())
    region_.peers.broadcast(Holding{contribution, region_.held_bytes(contribution), false});
  if (region_.holds(contribution)) {
    // Its contributor's word may come again after a lost link, and so may ours.
    report(contribution, region_.held_bytes(contribution), now);
  } else if (holding.pushing && !region_.options.witness) {
    for (const inter::BlobId& blob : due)
      if (!region_.spool.holds(blob)) catch_up_.expect(blob, peer, now);
  }
}

// Nothing that is known better speaks against it.
bool Exchange::is_news(const std::string& peer, const Contribution& contribution) {
  const ContributionKey key = key_of(contribution);
  const Contribution* known = region_.contributions.find(key);
  const bool own = key.region == region_.options.self;
  if (known == nullptr) {
    if (own) return false;  // of a lost disk
    if (contribution.sits_out && peer != key.region && region_.peers.is_up(key.region))
      return false;
    return peer == key.region ? displaces_older(key)
                              : key.round <= region_.history.version() + kRecordsAhead;
  }
  if (known->payload == contribution.payload) return true;
  if (own || peer != key.region) return false;
  // A record still to come may list the older payload.
  for (const inter::BlobId& blob : blobs_of(*known)) {
    const bool here = region_.spool.holds(blob) || region_.spool.begun().contains(blob);
    if (here || known->shards.empty()) region_.spool.leave_unclaimed(blob);
  }
  region_.contributions.forget_held(key);
  return true;
}

bool Exchange::displaces_older(const ContributionKey& key) {
  const auto displaced = region_.contributions.displaced_by(key);
  if (!displaced) return false;
  for (const inter::BlobId& blob : *displaced) {
    if (region_.spool.holds(blob)) {
      region_.spool.leave_unclaimed(blob);  // of use if one of those records lists it
    } else {
      region_.spool.discard(blob);
    }
  }
  return true;
}

void Exchange::tell(const std::string& peer) {
  for (const auto& [key, contribution] : region_.contributions.open()) {
    if (key.region != region_.options.self && region_.agreement.leader() != peer) continue;
    region_.peers.send(peer, Holding{contribution, region_.held_bytes(contribution), false});
  }
}

void Exchange::tell_new_leader(Time now) {
  region_.peers.send(*region_.agreement.leader(), region_.report.status());
  urgent_ = true;
  for (const auto& [key, contribution] : region_.contributions.open()) {
    const std::uint64_t bytes = region_.held_bytes(contribution);
    if (bytes > 0 || contribution.sits_out) report(contribution, bytes, now);
  }
}

// ---- Payloads and records ----

// A witness holds nothing.
void Exchange::report(const Contribution& contribution, std::uint64_t received_bytes, Time now) {
  if (contribution.round > region_.history.version() || region_.options.witness) return;
  if (leader_.leads()) {
    leader_.add(contribution, region_.options.self, received_bytes, now);
  } else if (region_.agreement.members().region_count() >= region_.options.gathers_from) {
    gather(key_of(contribution), now);
  } else if (region_.agreement.leader()) {
    region_.peers.send(*region_.agreement.leader(), Holding{contribution, received_bytes, false});
  }
}

void Exchange::gather(const ContributionKey& key, Time now) {
  if (gathered_.empty()) gathered_since_ = now;
  gathered_.insert(key);
}

bool Exchange::is_here(const ContributionKey& key) const {
  const Contribution* known = region_.contributions.find(key);
  return known != nullptr && region_.holds(*known);
}

// Contributions of the open round that are not here, of regions that took part in the last and are
// within reach.
std::size_t Exchange::lacking() const {
  const Round round = region_.history.version();
  const auto lacks = [this, round](const std::string& region) {
    return region_.peers.is_up(region) && !is_here({region, round, 0});
  };
  const CommitRecord* last = region_.history.newest();
  const auto count = last == nullptr
                         ? std::ranges::count_if(region_.agreement.members().regions(), lacks)
                         : std::ranges::count_if(last->participants, [&](const Participant& one) {
                             return one.round == last->round && one.part == 0 && lacks(one.region);
                           });
  return static_cast<std::size_t>(count);
}

// A leader whose grace period ends meanwhile takes what it does not know for late.
std::optional<Time> Exchange::gathered_until() const {
  if (gathered_.empty()) return std::nullopt;
  return gathered_since_ + std::min(kReportInterval, region_.options.grace_min / 4);
}

void Exchange::tell_gathered(Time now) {
  const auto until = gathered_until();
  const bool urgent = std::exchange(urgent_, false);
  if (!until) return;
  const auto leader = region_.agreement.leader();
  // A new one is told all, and this region knows what it holds itself.
  if (!leader || leader_.leads()) return gathered_.clear();
  const auto arrived = static_cast<std::size_t>(
      std::ranges::count_if(gathered_, [this](const auto& key) { return is_here(key); }));
  const bool enough = arrived > 0 && arrived >= lacking();
  if (!urgent && !enough && now < *until) return;
  Holdings word;
  for (const ContributionKey& key : std::exchange(gathered_, {})) {
    const Contribution* known = region_.contributions.find(key);
    if (known != nullptr) word.holdings.push_back({*known, region_.held_bytes(*known), false});
  }
  if (!word.holdings.empty()) region_.peers.send(*leader, std::move(word));
}

void Exchange::report_all_of(const inter::BlobId& blob, Time now) {
  for (const auto& [key, contribution] : region_.contributions.open()) {
    const std::vector<inter::BlobId> blobs = region_.shards.usual(contribution);
    if (std::ranges::count(blobs, blob) > 0)
      report(contribution, region_.held_bytes(contribution), now);
  }
}

void Exchange::on_arrived(const inter::BlobId& blob, Time now) {
  region_.spool.put(blob);
  region_.report.add_received(region_.fetcher.on_progress(blob, blob.size_bytes, now));
  region_.spool.forget_progress(blob);
  report_all_of(blob, now);
  region_.spool.leave_unclaimed_if_unnamed(blob);
}

void Exchange::on_lost(const inter::BlobId& blob, Time now) {
  region_.spool.lose(blob);
  region_.fetcher.on_lost(blob);
  urgent_ = true;  // a record may list it meanwhile
  report_all_of(blob, now);
  // The worker still has what it made for the open round: it is asked for the round again.
  const Contribution* own = region_.contributions.own(region_.history.version());
  const std::vector<inter::BlobId> blobs =
      own == nullptr ? std::vector<inter::BlobId>{} : blobs_of(*own);
  if (std::ranges::count(blobs, blob) == 0) return;
  region_.contributions.reject_own(region_.history.version());
  for (const inter::BlobId& left : blobs)
    if (region_.spool.holds(left)) region_.spool.leave_unclaimed(left);
}

bool Exchange::on_progress(const inter::BlobId& blob, std::uint64_t received_bytes, Time now) {
  const std::uint64_t growth_bytes = region_.fetcher.on_progress(blob, received_bytes, now);
  if (growth_bytes == 0) return false;
  region_.report.add_received(growth_bytes);
  if (region_.spool.may_report_progress(blob, now)) report_all_of(blob, now);
  return true;
}

void Exchange::settle(const CommitRecord& record) {
  region_.spool.list(record);
  for (const inter::BlobId& blob : region_.contributions.settle(record))
    region_.spool.discard(blob);
}

void Exchange::open_next(const CommitRecord& record, Time now) {
  leader_.open_next(record, now);
  urgent_ = true;  // what came early
  for (const auto& [key, contribution] : region_.contributions.open()) {
    if (region_.holds(contribution)) report(contribution, region_.held_bytes(contribution), now);
  }
}

}  // namespace causeway::diloco
