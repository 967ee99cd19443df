#include "diloco/round/leader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "diloco/log/withdraw.h"

namespace causeway::diloco {
namespace {

// A summer reads, adds up and writes what may be gigabytes, beside its training.
constexpr Time kPatienceMin = std::chrono::seconds{10};
// Whoever lies, or is late, would else cost every round what it cost one.
constexpr Round kIgnoredRounds = 50, kLateRounds = 10;

}  // namespace

void Leader::lead(Time now) {
  Raft& raft = region_.agreement.raft();
  if (!raft.leads()) return step_down();
  if (!decider_) start(now);
  if (const std::optional<Membership> changed = next_membership(now)) raft.propose(*changed, now);
  // A record stands under the members that precede it in the log.
  decider_->set_membership(raft.membership());
  decider_->set_applied(region_.options.self, region_.worker.applied());
  decide(now);
}

std::optional<Membership> Leader::next_membership(Time now) {
  if (std::optional<Membership> changed = members_.next(now)) return changed;
  const bool settled = region_.agreement.raft().electorate().settled();
  return settled ? beginning_.proposal() : std::nullopt;
}

void Leader::step_down() {
  begin_anew();
  members_.clear();
}

// With what was heard so far.
void Leader::start(Time now) {
  const RunHistory& history = region_.history;
  decider_.emplace(region_.options, region_.agreement.members(), history.newest());
  for (const std::string& peer : region_.peers.up()) {
    note_link(peer);
    const Status* status = region_.peers.status(peer);
    if (status != nullptr) decider_->set_applied(peer, status->applied);
  }
  feed(now);
  for (const auto& [key, contribution] : region_.contributions.open()) {
    const std::uint64_t bytes = region_.held_bytes(contribution);
    const bool own = key.region == region_.options.self;
    const bool tells =
        (bytes > 0 || own) && !region_.options.witness && key.round <= history.version();
    if (tells) decider_->add(contribution, region_.options.self, bytes, now);
  }
  region_.out.note(Note::Severity::info,
                   fmt::format("leads the run from round {} on (term {})", history.version(),
                               region_.agreement.raft().term()));
}

// What peers said to hold: the decider asks nobody itself.
void Leader::feed(Time now) {
  for (const auto& [key, contribution] : region_.contributions.open()) {
    for (const auto& [peer, bytes] : region_.contributions.held(key)) {
      decider_->add(contribution, peer, bytes, now);
    }
  }
}

void Leader::decide(Time now) {
  Raft& raft = region_.agreement.raft();
  const Membership& membership = raft.membership();
  if (proposed_ || region_.history.over() || !raft.leads()) return;
  const bool few = membership.voters() < membership.majority();
  if (few && !plants(region_.options.planted, PlantedBug::commit_without_majority)) return;
  if (vote_) look_at_vote(now);
  if (vote_ || proposed_) return;
  Decider::Verdict verdict = decider_->decide(steps(), now);
  for (const Contribution& contribution : verdict.diverged) tell_diverged(contribution);
  if (verdict.record) {
    verdict.record->k_decision = region_.history.k_policy().next();
    verdict.record->revision = region_.history.revision();
    if (region_.options.k_policy.budget.limits()) verdict.record->decided_unix_s = region_.unix_s;
    const bool sums = decider_->sharded() && !verdict.record->participants.empty();
    sums ? begin_vote(*verdict.record, now) : propose(*verdict.record, now);
  }
  const auto own = std::ranges::find(verdict.diverged, region_.options.self, &Contribution::region);
  if (own == verdict.diverged.end()) return;
  region_.reject_own(Diverged{own->round, own->payload, decider_->tied()});
}

void Leader::propose(CommitRecord record, Time now) {
  proposed_ = region_.history.version();
  region_.agreement.raft().propose(std::move(record), now);
}

// ---- The sums of a sharded round ----

void Leader::begin_vote(CommitRecord record, Time now) {
  const std::uint32_t shards = decider_->shards_of(record.participants.front());
  const Time patience = std::max(decider_->grace(), kPatienceMin);
  const Summers summers = decider_->summers();
  vote_.emplace(std::move(record), shards, summers, patience, now, doubted_summers(summers));
  vote_->look(decider_->up(), now);
  tell_draft();
}

// Not all that are left: somebody must sum.
DoubtedSummers Leader::doubted_summers(const Summers& summers) {
  DoubtedSummers doubted;
  for (const auto& [region, until] : late_) doubted.late.insert(region);
  bool others = false;
  for (std::size_t i = 0; i < summers.count(); ++i) {
    const std::string& region = summers.further(0, i);
    others = others || (decider_->up().contains(region) && !ignored_.contains(region));
  }
  if (!others) ignored_.clear();
  for (const auto& [region, until] : ignored_) doubted.ignored.insert(region);
  return doubted;
}

// What it lists may be out of reach by now, or nobody within reach has it: then the round is
// decided anew.
void Leader::look_at_vote(Time now) {
  const CommitRecord& record = vote_->draft().record;
  const bool stands =
      record.round == region_.history.version() && decider_->lists_enough(record) &&
      (vote_->settled() ? vote_->obtainable(decider_->up()) : decider_->can_supply(record));
  if (!stands) {
    decider_->leave_out_changed(record);
    return vote_.reset();
  }
  if (vote_->settled() && vote_->holders() >= decider_->holders_required(now)) {
    const CommitRecord whole = record;
    end_vote();
    return propose(whole, now);
  }
  if (vote_->leads_nowhere(now)) return give_up_vote();
  if (vote_->settled()) return;
  if (vote_->settle(decider_->up(), now) || vote_->look(decider_->up(), now)) tell_draft();
}

void Leader::give_up_vote() {
  region_.out.note(Note::Severity::warning,
                   fmt::format("round {} is decided anew: it waited in vain for {}",
                               region_.history.version(), vote_->waiting_for()));
  for (const std::string& region : vote_->unconfirmed()) {
    const Round until = region_.history.version() + kIgnoredRounds;
    if (!ignored_.insert_or_assign(region, until).second) continue;
    region_.out.note(Note::Severity::warning,
                     fmt::format("nobody could get a sum that only {0} named: the sums of {0} do "
                                 "not count before round {1}",
                                 region, until));
  }
  decider_->be_strict();
  end_vote();
}

void Leader::end_vote() {
  const Round round = region_.history.version();
  for (const std::string& region : vote_->late()) {
    if (!late_.insert_or_assign(region, round + kLateRounds).second) continue;
    region_.out.note(
        Note::Severity::warning,
        fmt::format("{0} kept round {1} waiting for its sums: in the next {2} rounds another "
                    "region is asked as well for a sum that only {0} has not given",
                    region, round, kLateRounds));
  }
  vote_.reset();
}

void Leader::tell_draft() {
  ++drafts_told_;
  // Who takes over a shard may have no link to whoever made some of it.
  std::set<std::string> further;
  for (const Draft::Duty& duty : vote_->draft().duties) further.insert(duty.region);
  for (const std::string& region : further) tell_what_is_listed(region);
  region_.peers.broadcast(vote_->draft());
}

void Leader::tell_what_is_listed(const std::string& peer) {
  Holdings word;
  for (const Participant& one : vote_->draft().record.participants) {
    const Contribution* made = region_.contributions.find(key_of(one));
    if (made != nullptr) word.holdings.push_back({*made, region_.held_bytes(*made), false});
  }
  region_.peers.send(peer, std::move(word));
}

void Leader::tell(const std::string& peer) {
  if (vote_) region_.peers.send(peer, vote_->draft());
}

std::optional<Time> Leader::vote_deadline() const {
  return vote_ ? vote_->deadline() : std::nullopt;
}

std::string Leader::waiting_for(Time now) const {
  return vote_ ? vote_->waiting_for() : decider_->waiting_for(now);
}

void Leader::hear(const std::string& region, const ShardSums& sums, Time now) {
  if (vote_) vote_->hear(region, sums, now);
}

void Leader::note_progress(const std::string& region, Time now) {
  if (vote_) vote_->note_progress(region, now);
}

void Leader::withdraw(Round round, const std::set<inter::BlobId>& lost, Time now) {
  if (proposed_) return;
  const CommitRecord& record = region_.history.record(round);
  std::set<ContributionKey> keys;
  // A sum that is lost has something of everybody.
  for (const Participant& one : record.participants)
    if (lost.contains(one.payload) || !record.sums.empty()) keys.insert(key_of(one));
  proposed_ = round;
  region_.agreement.raft().propose(diloco::withdraw(record, keys, region_.history.revision()), now);
}

Decider::Steps Leader::steps() const {
  const RunHistory& history = region_.history;
  return {.k = history.nominal_k(history.version()),
          .next_k = history.nominal_next_k(),
          .since_exchange = history.steps_since_exchange()};
}

void Leader::tell_diverged(const Contribution& contribution) {
  const Round version = region_.history.version();
  region_.out.note(Note::Severity::error,
                   fmt::format("the state of {} at version {} is not the one that most regions "
                               "hold, so its contribution is not listed",
                               contribution.region, version));
  region_.peers.send(contribution.region,
                     Diverged{version, contribution.payload, decider_->tied()});
}

// ---- What it hears ----

void Leader::note_link(const std::string& peer) {
  if (decider_) decider_->set_up(peer, may_contribute(peer));
}

// Nobody is waited for whose payload cannot come: where the direct link is gone, another region
// brings it, but a witness holds none.
bool Leader::may_contribute(const std::string& peer) const {
  if (region_.peers.linked().contains(peer)) return true;
  if (!region_.peers.is_up(peer)) return false;
  return region_.peers.any_keeps_payloads(region_.agreement.members());
}

void Leader::set_applied(const std::string& peer, const std::optional<Applied>& applied) {
  if (decider_) decider_->set_applied(peer, applied);
}

void Leader::add(const Contribution& contribution, const std::string& holder, std::uint64_t bytes,
                 Time now) {
  if (decider_) decider_->add(contribution, holder, bytes, now);
}

void Leader::hear(const Contribution& contribution, const std::string& peer, std::uint64_t bytes,
                  Time now) {
  if (!decider_) return;
  decider_->add(contribution, peer, bytes, now);
  if (decider_->rejects(contribution) && peer == contribution.region) {
    region_.peers.send(peer, Diverged{contribution.round, contribution.payload, decider_->tied()});
  }
}

void Leader::open_next(const CommitRecord& committed, Time now) {
  if (proposed_ == committed.round) proposed_.reset();
  for (auto* doubts : {&ignored_, &late_})
    std::erase_if(*doubts, [&](const auto& one) { return one.second <= committed.round + 1; });
  if (!decider_) return;
  decider_->open_next(committed);
  feed(now);
}

}  // namespace causeway::diloco
