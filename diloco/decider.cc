#include "diloco/decider.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace causeway::diloco {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;

std::string in_seconds(Time time) {
  return std::to_string(std::max<std::int64_t>(0, duration_cast<seconds>(time).count())) + " s";
}

}  // namespace

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
  // Whoever passes a contribution on got it from its contributor.
  if (candidate.received_bytes.empty()) {
    candidate.received_bytes[key.region] = contribution.payload.size_bytes;
  }
  candidate.contribution = contribution;
  if (is_fresh(key)) attached_.insert(key.region);
  std::uint64_t& known_bytes = candidate.received_bytes[holder];
  if (received_bytes > known_bytes) {
    known_bytes = received_bytes;
    progress_at_ = now;
  }
}

// ---- What can be listed ----

std::size_t Decider::holders(const Candidate& candidate) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(candidate.received_bytes, [&candidate](const auto& holder) {
        return holder.second >= candidate.contribution.payload.size_bytes;
      }));
}

// Held by enough regions, one of which can be asked now.
bool Decider::obtainable(const Candidate& candidate, std::size_t holders_required) const {
  const std::uint64_t size_bytes = candidate.contribution.payload.size_bytes;
  return holders(candidate) >= holders_required &&
         std::ranges::any_of(candidate.received_bytes, [this, size_bytes](const auto& holder) {
           return holder.second >= size_bytes && up_.contains(holder.first);
         });
}

// One more than may fail while the run goes on, so that one is always left; two at least. After the
// deadline regions that are cut off cannot be asked to hold anything, but no fewer will do than
// every majority has, witnesses left out.
std::size_t Decider::holders_required(Time now) const {
  if (options_.planted == PlantedBug::list_unspooled) return 1;
  const std::set<std::string> regions = membership_.regions();
  const std::size_t voters = std::max<std::size_t>(membership_.voters(), 1);
  const std::size_t witnesses = membership_.members.size() - regions.size();
  const std::size_t wanted = std::min(std::max<std::size_t>(2, (voters - 1) / 2 + 1),
                                      std::max<std::size_t>(1, regions.size()));
  if (!past_deadline(now)) return wanted;
  const std::size_t majority = voters / 2 + 1;
  const std::size_t least = majority > witnesses ? majority - witnesses : 1;
  const auto reachable = std::ranges::count_if(
      regions, [this](const std::string& region) { return up_.contains(region); });
  return std::min(wanted, std::max(least, static_cast<std::size_t>(reachable)));
}

std::optional<Time> Decider::deadline() const {
  if (!quorum_at_) return std::nullopt;
  Time deadline = *quorum_at_ + grace();
  // What moves but is late is listed later, if that may be.
  const bool moving =
      candidates_.size() > usable_.size() && progress_at_ && options_.staleness_max == 0;
  if (moving) deadline = std::max(deadline, *progress_at_ + options_.grace_min);
  return std::min(deadline, *quorum_at_ + options_.grace_max);
}

// A region that may be listed later is not worth more waiting than a quarter of a round's compute,
// or the part of it that goes on meanwhile (algorithms.md 7.5, rule 1).
Time Decider::grace() const {
  double compute_s = 0;
  for (const auto& [key, candidate] : candidates_) {
    if (is_fresh(key)) compute_s = std::max(compute_s, candidate.contribution.compute_s);
  }
  const bool may_be_late = options_.staleness_max > 0 && compute_s > 0 && compute_s < 1e9;
  if (!may_be_late) return grace_.length();
  const double round_steps = std::max(1.0, double(options_.pace.k) / options_.pace.fragments);
  const double share = std::clamp(options_.overlap_steps / round_steps, 0.25, 1.0);
  const Time worth{static_cast<Time::rep>(compute_s * share * 1e6)};
  return std::min(grace_.length(), std::max(options_.grace_min, worth));
}

bool Decider::past_deadline(Time now) const {
  const std::optional<Time> at = deadline();
  return at && now >= *at;
}

std::size_t Decider::contributions_min() const {
  const std::size_t majority = membership_.regions().size() / 2 + 1;
  const std::size_t wanted =
      options_.contributions_min == 0 ? majority : options_.contributions_min;
  return std::min(wanted, membership_.regions().size());  // some may have been removed
}

std::size_t Decider::contributors() const {
  std::set<std::string> regions;
  for (const ContributionKey& key : usable_) regions.insert(key.region);
  return regions.size();
}

// Brings the set of usable contributions up to date.
void Decider::refresh(Time now) {
  std::set<std::string> known;
  for (const auto& [key, candidate] : candidates_) {
    if (!candidate.contribution.sits_out && has_its_turn(key)) known.insert(key.region);
  }
  if (!quorum_at_ && known.size() >= contributions_min()) quorum_at_ = now;
  const std::size_t required = holders_required(now);
  std::set<ContributionKey> usable;
  for (const auto& [key, candidate] : candidates_) {
    const bool offers = !candidate.contribution.sits_out && has_its_turn(key);
    if (offers && obtainable(candidate, required)) usable.insert(key);
  }
  if (usable.size() > usable_.size()) last_usable_at_ = now;
  usable_ = std::move(usable);
}

// Nothing more is to come from it for this round.
bool Decider::settled(const std::string& region) const {
  const ContributionKey key{region, round_, 0};
  const auto candidate = candidates_.find(key);
  return candidate != candidates_.end() &&
         (candidate->second.contribution.sits_out || usable_.contains(key));
}

// Whoever the last record does not name has no share of the data yet, and contributes nothing.
bool Decider::complete() const {
  return std::ranges::all_of(attached_, [this](const std::string& region) {
    const bool new_here = !standings_.empty() && !standings_.contains(region);
    return new_here || settled(region);
  });
}

// ---- The decision ----

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
  learn_speeds();
  verdict.record = make_record(*agreed, barren ? std::vector<Offer>{} : offers(), steps);
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

// The state that more than half of the regions start from, of those that stand at this round; after
// a tie, of all.
std::optional<Digest> Decider::agreed_state() const {
  if (round_ == 0 && membership_.origin) return membership_.origin->state;
  std::map<std::string, Digest> states;
  for (const auto& [region, applied] : applied_) {
    if (applied.version == round_) states[region] = applied.state;
  }
  for (const auto& [key, candidate] : candidates_) {
    if (is_fresh(key)) states[key.region] = candidate.contribution.state;
  }
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
                                  const Steps& steps) const {
  const Weights weights = weigh(offers, membership_.regions().size());
  const Round past = round_ + 1;
  const Round cap = options_.staleness_max * options_.pace.fragments;
  CommitRecord record{.run_id = {},
                      .round = round_,
                      .participants = {},
                      .state = agreed,
                      .expired_before = past > cap ? past - cap : 0,
                      .skip_momentum = weights.skip_momentum,
                      .momentum = momentum(steps.since_exchange),
                      .next_k = steps.next_k,
                      .next_grace_ms = static_cast<std::uint32_t>(
                          duration_cast<milliseconds>(grace_.length()).count()),
                      .standings = standings(steps.next_k),
                      .measured = measured(offers, steps.k)};
  for (std::size_t i = 0; i < offers.size(); ++i) {
    record.participants.push_back(participant_of(offers[i].contribution, weights.values[i]));
  }
  return record;
}

std::optional<RoundMeasure> Decider::measured(const std::vector<Offer>& offers,
                                              std::uint32_t k) const {
  if (!options_.k_policy.adapts()) return std::nullopt;
  std::vector<const Contribution*> fresh;
  for (const Offer& offer : offers) {
    if (is_fresh(key_of(offer.contribution))) fresh.push_back(&offer.contribution);
  }
  return measure(fresh, k);
}

// One machine computes it, so that all use the same bits.
std::optional<float> Decider::momentum(std::uint64_t since_exchange) const {
  const std::uint32_t k = options_.pace.k;
  if (options_.outer_momentum == 0 || since_exchange == k || k == 0) return std::nullopt;
  const double exponent = static_cast<double>(since_exchange) / k;
  return static_cast<float>(std::pow(options_.outer_momentum, exponent));
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
    standings.push_back({.region = region,
                         .liveness = static_cast<float>(after),
                         .next_k = adapted_k(region, next_k)});
  }
  return standings;
}

// DyLU (arXiv 2401.09135, equation 6): K_r = floor(K * v_r / v_max), so that unequal regions arrive
// together.
std::uint32_t Decider::adapted_k(const std::string& region, std::uint32_t nominal) const {
  const auto speed = steps_per_s_.find(region);
  if (!options_.speed_adaptive_k || speed == steps_per_s_.end()) return nominal;
  if (nominal == 0) return 0;
  double fastest = 0;
  for (const auto& [other, steps_per_s] : steps_per_s_) fastest = std::max(fastest, steps_per_s);
  const double share = std::floor(nominal * speed->second / fastest);
  return static_cast<std::uint32_t>(std::clamp<double>(share, 1, nominal));
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

void Decider::learn_speeds() {
  constexpr double kNewest = 0.5;
  for (const auto& [key, candidate] : candidates_) {
    const Contribution& made = candidate.contribution;
    if (key.part > 0 || made.steps == 0 || !(made.compute_s > 0)) continue;
    const double measured = made.steps / made.compute_s;
    const auto [entry, first] = steps_per_s_.try_emplace(key.region, measured);
    if (!first) entry->second += kNewest * (measured - entry->second);
  }
}

Time Decider::slowest(std::uint32_t steps) const {
  constexpr double kMostS = 86'400;  // whatever a region claims
  double most_s = 0;
  for (const auto& [region, steps_per_s] : steps_per_s_)
    most_s = std::max(most_s, steps / steps_per_s);
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(std::min(most_s, kMostS)));
}

// ---- Words ----

std::string Decider::describe(const std::string& region) const {
  const auto found = candidates_.find({region, round_, 0});
  if (found == candidates_.end()) {
    return region + (up_.contains(region) ? " (no contribution yet)" : " (unreachable)");
  }
  std::uint64_t most = 0;
  for (const auto& [holder, bytes] : found->second.received_bytes) {
    if (holder != region) most = std::max(most, bytes);
  }
  return region + " (" + std::to_string(most) + " of " +
         std::to_string(found->second.contribution.payload.size_bytes) + " payload bytes at " +
         std::to_string(holders(found->second) - 1) + " other regions)";
}

std::string Decider::sitting_out() const {
  std::string names;
  for (const auto& [key, candidate] : candidates_) {
    if (!is_fresh(key) || !candidate.contribution.sits_out) continue;
    names += (names.empty() ? "" : ", ") + key.region;
  }
  return names.empty() ? "" : " (" + names + " sit this round out: nothing finite to offer)";
}

std::string Decider::waiting_for(Time now) const {
  std::string text;
  for (const std::string& region : attached_) {
    if (!settled(region)) text += (text.empty() ? "" : ", ") + describe(region);
  }
  const std::size_t count = contributors();
  if (text.empty() && count >= contributions_min()) return {};
  if (text.empty()) text = "any region" + sitting_out();
  text += " for round " + std::to_string(round_);
  const std::optional<Time> until = deadline();
  if (until && now < *until) return text + ", at most " + in_seconds(*until - now) + " more";
  return text + "; it needs " + std::to_string(contributions_min()) + " contributions and has " +
         std::to_string(count);
}

}  // namespace causeway::diloco
