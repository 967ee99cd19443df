#include "diloco/round/decider.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace causeway::diloco {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

Decider::Decider(const ProtocolOptions& options, const Membership& membership,
                 const CommitRecord* last)
    : options_(options),
      membership_(membership),
      grace_(options.grace_min, options.grace_max),
      up_{options.self} {
  if (last == nullptr) {
    attached_ = membership_.regions();
  } else {
    open_next(*last);
  }
}

void Decider::open_next(const CommitRecord& committed) {
  round_ = committed.round + 1;
  grace_.start_from(milliseconds{committed.next_grace_ms});
  egress_.clear();
  for (const EgressCost& region : committed.egress) egress_[region.region] = region.cost;
  standings_.clear();
  for (const Standing& standing : committed.standings) standings_[standing.region] = standing;
  attached_.clear();
  for (const Participant& participant : committed.participants) {
    if (participant.round == committed.round) attached_.insert(participant.region);
  }
  for (const auto& [region, applied] : applied_) {
    if (up_.contains(region) && applied.version == round_) attached_.insert(region);
  }
  std::erase_if(candidates_, [&committed](const auto& entry) {
    const bool strays =
        entry.first.round == committed.round && entry.second.contribution.state != committed.state;
    return strays || entry.first.round < committed.expired_before ||
           std::ranges::any_of(committed.participants, [&entry](const Participant& listed) {
             return key_of(listed) == entry.first ||
                    share_samples(listed, entry.second.contribution);
           });
  });
  diverged_.clear();
  rejected_.clear();
  tied_ = false;
  usable_.clear();
  quorum_at_.reset();
  progress_at_.reset();
}

void Decider::set_up(const std::string& region, bool up) {
  if (up) {
    up_.insert(region);
    // It says anew what it holds: it may have lost its disk.
    for (auto& [key, candidate] : candidates_) candidate.received_bytes.erase(region);
  } else {
    up_.erase(region);
  }
}

void Decider::set_applied(const std::string& region, const std::optional<Applied>& applied) {
  if (!applied) {
    applied_.erase(region);
    return;
  }
  applied_[region] = *applied;
  const auto diverged = diverged_.find(region);
  if (diverged != diverged_.end() && diverged->second != applied->state) diverged_.erase(diverged);
  if (applied->version == round_ && !diverged_.contains(region)) attached_.insert(region);
}

void Decider::add(const Contribution& contribution, const std::string& holder,
                  std::uint64_t received_bytes, Time now) {
  const ContributionKey key = key_of(contribution);
  if (key.round > round_) return;
  if (rejects(contribution)) return;
  Candidate& candidate = candidates_[key];
  if (candidate.contribution.payload != contribution.payload) {
    // A region may replace its own contribution after it lost its disk; a holder of the old one
    // says nothing about the new.
    if (!candidate.received_bytes.empty() && holder != key.region) return;
    candidate = {};
  }
  candidate.contribution = contribution;
  if (is_fresh(key)) attached_.insert(key.region);
  std::uint64_t& known_bytes = candidate.received_bytes[holder];
  if (received_bytes > known_bytes) progress_at_ = now;
  const bool planted = plants(options_.planted, PlantedBug::count_unchecked);
  known_bytes = planted ? std::max(known_bytes, received_bytes) : received_bytes;
}

Decider::Verdict Decider::decide(const Steps& steps, Time now) {
  Verdict verdict;
  refresh(now);
  const bool barren = hopeless();
  const bool enough = contributors() >= contributions_min() && (complete() || past_deadline(now));
  if (!enough && !barren) return verdict;

  const std::optional<Digest> agreed = agreed_state();
  const std::string run_id = candidates_.begin()->second.contribution.run_id;
  verdict.diverged = remove_diverged(agreed);
  if (!agreed || (!barren && contributors() < contributions_min())) return verdict;
  if (!barren) learn_lateness();
  for (const auto& [key, candidate] : candidates_) {
    if (key.part == 0) speeds_.learn(candidate.contribution);
  }
  verdict.record = make_record(*agreed, barren ? std::vector<Offer>{} : offers(), steps, now);
  verdict.record->run_id = run_id;
  return verdict;
}

// So many sit this round out that the others, all of them, are too few.
bool Decider::hopeless() const {
  const std::set<std::string> regions = membership_.regions();
  const auto possible = std::ranges::count_if(regions, [this](const std::string& region) {
    const auto fresh = candidates_.find({region, round_, 0});
    const bool out = fresh != candidates_.end() && fresh->second.contribution.sits_out;
    return !out || std::ranges::any_of(usable_, [&region](const ContributionKey& key) {
      return key.region == region;
    });
  });
  return static_cast<std::size_t>(possible) < contributions_min();
}

// By region, of those that stand at this round.
std::map<std::string, Digest> Decider::states_at_round() const {
  std::map<std::string, Digest> states;
  for (const auto& [region, applied] : applied_) {
    if (applied.version == round_) states[region] = applied.state;
  }
  for (const auto& [key, candidate] : candidates_) {
    if (is_fresh(key)) states[key.region] = candidate.contribution.state;
  }
  return states;
}

// The state that more than half of the regions start from, of those that stand at this round; after
// a tie, of all.
std::optional<Digest> Decider::agreed_state() const {
  if (round_ == 0 && membership_.origin) return membership_.origin->state;
  const std::map<std::string, Digest> states = states_at_round();
  std::map<Digest, std::size_t> votes;
  for (const auto& [region, state] : states) ++votes[state];
  const std::size_t electorate =
      tied_ ? std::max(states.size(), membership_.regions().size()) : states.size();
  for (const auto& [state, count] : votes) {
    if (2 * count > electorate) return state;
  }
  return std::nullopt;
}

std::vector<Contribution> Decider::remove_diverged(const std::optional<Digest>& agreed) {
  std::vector<Contribution> diverged;
  for (const auto& [key, candidate] : candidates_) {
    if (is_fresh(key) && candidate.contribution.state != agreed) {
      diverged.push_back(candidate.contribution);
    }
  }
  tied_ = tied_ || (!agreed && !diverged.empty());
  for (const Contribution& contribution : diverged) {
    if (!contribution.sits_out) rejected_.insert(contribution.payload);
    if (agreed) diverged_[contribution.region] = contribution.state;
    usable_.erase(key_of(contribution));
    candidates_.erase(key_of(contribution));
    attached_.erase(contribution.region);
  }
  return diverged;
}

std::vector<Offer> Decider::offers() const {
  std::vector<Offer> offers;
  for (const ContributionKey& key : usable_) {  // ascending: the order of summation
    const Contribution& made = candidates_.at(key).contribution;
    const bool counted = std::ranges::any_of(
        offers, [&made](const Offer& offer) { return share_samples(offer.contribution, made); });
    if (counted) continue;
    const auto standing = standings_.find(key.region);
    // A region that the last record does not know is new; at the start all are, and equal.
    const double liveness = standing != standings_.end() ? standing->second.liveness
                            : standings_.empty()         ? 1
                                                         : 0;
    offers.push_back({.contribution = made,
                      .liveness = liveness_as_weight(liveness),
                      .staleness = (round_ - key.round) / options_.pace.fragments});
  }
  return offers;
}

CommitRecord Decider::make_record(const Digest& agreed, const std::vector<Offer>& offers,
                                  const Steps& steps, Time now) const {
  const Weights weights = weigh(offers, membership_.regions().size());
  const Round past = round_ + 1;
  const Round cap = options_.staleness_max * options_.pace.fragments;
  CommitRecord record{.run_id = {},
                      .round = round_,
                      .participants = {},
                      .state = agreed,
                      .expired_before = past > cap ? past - cap : 0,
                      .skip_momentum = weights.skip_momentum,
                      .momentum = momentum_after(steps.since_exchange, options_.pace.k,
                                                 options_.outer_momentum),
                      .next_k = steps.next_k,
                      .next_grace_ms = static_cast<std::uint32_t>(
                          duration_cast<milliseconds>(grace_.length()).count()),
                      .standings = standings(steps.next_k),
                      .measured = measured(offers, steps.k)};
  for (std::size_t i = 0; i < offers.size(); ++i) {
    record.participants.push_back(participant_of(offers[i].contribution, weights.values[i]));
  }
  add_egress(record, now);
  return record;
}

// Costs only grow: what a region says next may have come earlier.
void Decider::add_egress(CommitRecord& record, Time now) const {
  if (!options_.k_policy.budget.limits()) return;
  std::map<std::string, double> costs = egress_;
  for (const auto& [key, candidate] : candidates_) {
    double& cost = costs[key.region];
    cost = std::max(cost, candidate.contribution.egress_cost);
  }
  record.decided_unix_s = options_.unix_s_at_zero + std::chrono::duration<double>(now).count();
  for (const auto& [region, cost] : costs) record.egress.push_back({region, cost});
}

std::optional<RoundMeasure> Decider::measured(const std::vector<Offer>& offers,
                                              std::uint32_t k) const {
  if (!options_.k_policy.measures()) return std::nullopt;
  std::vector<const Contribution*> fresh;
  for (const Offer& offer : offers) {
    if (is_fresh(key_of(offer.contribution))) fresh.push_back(&offer.contribution);
  }
  return measure(fresh, k);
}

std::vector<Standing> Decider::standings(std::uint32_t next_k) const {
  std::vector<Standing> standings;
  for (const std::string& region : membership_.regions()) {
    const auto known = standings_.find(region);
    const double before = known != standings_.end() ? known->second.liveness
                          : standings_.empty()      ? 1
                                                    : 0;
    const bool late = std::ranges::any_of(
        usable_, [&region](const ContributionKey& key) { return key.region == region; });
    const double after = liveness_after(before, late || settled(region));
    const std::uint32_t own_k =
        options_.speed_adaptive_k ? speeds_.adapted(next_k, region) : next_k;
    standings.push_back({.region = region, .liveness = static_cast<float>(after), .next_k = own_k});
  }
  return standings;
}

// A region that stood at this round and was reachable but still missed it is slow, not gone: it
// counts as twice the grace, so that the grace grows until it fits.
void Decider::learn_lateness() {
  const bool missed = std::ranges::any_of(attached_, [this](const std::string& region) {
    const auto applied = applied_.find(region);
    return !settled(region) && up_.contains(region) && applied != applied_.end() &&
           applied->second.version == round_;
  });
  if (missed) {
    grace_.add(2 * grace_.length());
  } else if (contributors() > contributions_min()) {
    grace_.add(last_usable_at_ - *quorum_at_);
  }
}

}  // namespace causeway::diloco
