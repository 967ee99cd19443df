#include "diloco/round/decider.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "inter/base/text.h"

namespace causeway::diloco {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

Decider::Decider(const ProtocolOptions& options, const Membership& membership,
                 const CommitRecord* last)
    : options_(options),
      membership_(membership),
      grace_(options.grace_min, options.grace_max),
      up_{options.self},
      candidates_(options.planted) {
  count_contributions_wanted();
  if (last == nullptr) {
    attached_ = membership_.regions();
    choose_summers();
  } else {
    open_next(*last);
  }
}

void Decider::set_membership(const Membership& membership) {
  if (membership == membership_) return;
  membership_ = membership;
  const std::set<std::string> regions = membership_.regions();
  std::erase_if(attached_, [&](const auto& region) { return !regions.contains(region); });
  count_contributions_wanted();
  choose_summers();
}

void Decider::choose_summers() {
  sharded_ = is_sharded_after(last_ ? &*last_ : nullptr, options_);
  candidates_.set_summers({last_ ? &*last_ : nullptr, membership_});
}

void Decider::open_next(const CommitRecord& committed) {
  round_ = committed.round + 1;
  last_.emplace();
  last_->round = committed.round;
  last_->participants = committed.participants;
  last_->next_sharded = committed.next_sharded;
  strict_ = false;
  left_out_.clear();
  choose_summers();
  grace_.start_from(milliseconds{committed.next_grace_ms});
  egress_.clear();
  for (const EgressCost& region : committed.egress) egress_[region.region] = region.cost;
  standings_.start_from(committed);
  count_contributions_wanted();
  attached_.clear();
  for (const Participant& participant : committed.participants) {
    if (participant.round == committed.round) attach(participant.region);
  }
  states_.open(round_);
  for (const std::string& region : up_) {
    if (states_.is_applied_by(region)) attach(region);
  }
  candidates_.settle(committed);
  usable_.clear();
  quorum_at_.reset();
  progress_at_.reset();
}

void Decider::set_up(const std::string& region, bool up) {
  if (up) {
    up_.insert(region);
    candidates_.forget_word_of(region);
  } else {
    up_.erase(region);
  }
}

void Decider::set_applied(const std::string& region, const std::optional<Applied>& applied) {
  if (states_.set_applied(region, applied)) attach(region);
}

void Decider::attach(const std::string& region) {
  if (membership_.trains(region)) attached_.insert(region);
}

void Decider::add(const Contribution& contribution, const std::string& holder,
                  std::uint64_t received_bytes, Time now) {
  const ContributionKey key = key_of(contribution);
  if (key.round > round_) return;
  if (rejects(contribution)) return;
  if (is_fresh(key) && holder == key.region) attach(key.region);
  if (candidates_.add(contribution, holder, received_bytes)) progress_at_ = now;
}

// ---- The decision ----

Decider::Verdict Decider::decide(const Steps& steps, Time now) {
  Verdict verdict;
  refresh(now);
  const bool barren = hopeless();
  const bool enough = contributors() >= contributions_min_ && (complete() || past_deadline(now));
  if (!enough && !barren) return verdict;

  const std::optional<Digest> agreed = states_.agreed(candidates_, membership_);
  const std::string run_id = candidates_.all().begin()->second.contribution.run_id;
  verdict.diverged = remove_diverged(agreed);
  if (!agreed || (!barren && contributors() < contributions_min_)) return verdict;
  if (!barren) learn_lateness();
  for (const auto& [key, candidate] : candidates_.all()) {
    if (key.part == 0 && candidates_.is_own_word(candidate)) speeds_.learn(candidate.contribution);
  }
  verdict.record = make_record(*agreed, barren ? std::vector<Offer>{} : offers(), steps);
  verdict.record->run_id = run_id;
  return verdict;
}

// So many sit this round out that the others, all of them, are too few.
bool Decider::hopeless() const {
  const auto can_contribute = [this](const std::string& region) {
    return !sits_out(region) || std::ranges::count(usable_, region, &ContributionKey::region) > 0;
  };
  const auto possible = std::ranges::count_if(membership_.members, [&](const Member& member) {
    return !member.witness && can_contribute(member.region);
  });
  return static_cast<std::size_t>(possible) < contributions_min_;
}

std::vector<Contribution> Decider::remove_diverged(const std::optional<Digest>& agreed) {
  std::vector<Contribution> diverged = states_.reject_others(candidates_, agreed);
  for (const Contribution& contribution : diverged) {
    usable_.erase(key_of(contribution));
    candidates_.erase(key_of(contribution));
    attached_.erase(contribution.region);
  }
  return diverged;
}

// ---- The record ----

// Of what a region made late, so much at a time: a record must not be one member's to fill.
bool Decider::may_list(const ContributionKey& key) const {
  constexpr std::ptrdiff_t kLateMax = 8;
  const auto of_region = [&key](const ContributionKey& one) {
    return one.region == key.region && one < key;
  };
  return is_fresh(key) || std::ranges::count_if(usable_, of_region) < kLateMax;
}

std::vector<Offer> Decider::offers() const {
  std::vector<Offer> offers;
  for (const ContributionKey& key : usable_) {  // ascending: the order of summation
    const Contribution& made = candidates_.at(key).contribution;
    const bool counted = std::ranges::any_of(
        offers, [&made](const Offer& offer) { return share_samples(offer.contribution, made); });
    if (counted || !may_list(key)) continue;
    offers.push_back({.contribution = made,
                      .liveness = liveness_as_weight(standings_.liveness(key.region)),
                      .staleness = (round_ - key.round) / options_.pace.fragments});
  }
  return offers;
}

CommitRecord Decider::make_record(const Digest& agreed, const std::vector<Offer>& offers,
                                  const Steps& steps) const {
  std::vector<Standing> named = standings(steps.next_k);
  const Weights weights = weigh(offers, named.size());
  const Round past = round_ + 1;
  const Round cap = options_.staleness_max * options_.pace.fragments;
  CommitRecord record{
      .run_id = {},
      .round = round_,
      .participants = {},
      .state = agreed,
      .expired_before = past > cap ? past - cap : 0,
      .skip_momentum = weights.skip_momentum,
      .momentum = momentum_after(steps.since_exchange, options_.pace.k, options_.outer_momentum),
      .next_k = steps.next_k,
      .next_grace_ms =
          static_cast<std::uint32_t>(duration_cast<milliseconds>(grace_.length()).count()),
      .standings = std::move(named),
      .measured = measured(offers, steps.k)};
  for (std::size_t i = 0; i < offers.size(); ++i) {
    record.participants.push_back(participant_of(offers[i].contribution, weights.values[i]));
  }
  record.next_sharded = is_next_sharded(offers);
  // Shards are with the summers of their round alone.
  if (sharded_ || record.next_sharded) record.expired_before = past;
  add_egress(record);
  return record;
}

bool Decider::is_next_sharded(const std::vector<Offer>& offers) const {
  if (options_.exchange != ExchangeKind::automatic)
    return options_.exchange == ExchangeKind::sharded;
  const auto fresh = std::ranges::count_if(
      offers, [this](const Offer& offer) { return is_fresh(key_of(offer.contribution)); });
  return static_cast<std::size_t>(fresh) >= kShardedFrom;
}

// Costs only grow: what a region says next may have come earlier.
void Decider::add_egress(CommitRecord& record) const {
  if (!options_.k_policy.budget.limits()) return;
  std::map<std::string, double> costs = egress_;
  for (const auto& [key, candidate] : candidates_.all()) {
    if (!candidates_.is_own_word(candidate)) continue;
    double& cost = costs[key.region];
    cost = std::max(cost, candidate.contribution.egress_cost);
  }
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

// A region has its share of the data once a record names it. One that was added and never came has
// none, or that data would be read by nobody: a member's word is enough to add a name.
bool Decider::may_be_named(const std::string& region) const {
  return !standings_.is_new(region) || !membership_.find(region)->incarnation.empty();
}

std::vector<Standing> Decider::standings(std::uint32_t next_k) const {
  std::vector<Standing> standings;
  for (const std::string& region : membership_.regions()) {
    if (!may_be_named(region)) continue;
    const bool late = std::ranges::any_of(
        usable_, [&region](const ContributionKey& key) { return key.region == region; });
    const double after = liveness_after(standings_.liveness(region), late || settled(region));
    const std::uint32_t own_k =
        options_.speed_adaptive_k ? speeds_.adapted(next_k, region) : next_k;
    standings.push_back({.region = region, .liveness = static_cast<float>(after), .next_k = own_k});
  }
  return standings;
}

// ---- What can be listed ----

void Decider::leave_out_changed(const CommitRecord& draft) {
  for (const Participant& one : draft.participants) {
    const Candidate* const found = candidates_.find(key_of(one));
    const bool changed = found != nullptr && found->contribution.payload != one.payload;
    if (changed) left_out_.insert(one.region);
  }
}

bool Decider::lists_enough(const CommitRecord& draft) const {
  return draft.participants.size() >= contributions_min_;  // one of each region
}

void Decider::count_contributions_wanted() {
  const std::size_t wanted = options_.contributions_min == 0
                                 ? membership_.most_of(standings_.living(membership_))
                                 : options_.contributions_min;
  contributions_min_ = std::min(wanted, membership_.region_count());  // some may have been removed
}

std::size_t Decider::contributors() const {
  return region_count(usable_);
}

std::size_t Decider::region_count(const std::set<ContributionKey>& keys) {
  std::set<std::string> regions;
  for (const ContributionKey& key : keys) regions.insert(key.region);
  return regions.size();
}

// Brings the set of usable contributions up to date.
void Decider::refresh(Time now) {
  std::set<std::string> known;
  for (const auto& [key, candidate] : candidates_.all()) {
    const Contribution& made = candidate.contribution;
    if (candidates_.is_own_word(candidate) && !made.sits_out && has_its_turn(key) &&
        comes_as_the_round_does(made))
      known.insert(key.region);
  }
  if (!quorum_at_ && known.size() >= contributions_min_) quorum_at_ = now;
  std::set<ContributionKey> usable = find_usable(now, true);
  // A round that could list too few is better with what was trouble before.
  const bool careful = strict_ || !left_out_.empty();
  if (careful && region_count(usable) < contributions_min_) usable = find_usable(now, false);
  if (usable.size() > usable_.size()) last_usable_at_ = now;
  usable_ = std::move(usable);
}

std::set<ContributionKey> Decider::find_usable(Time now, bool careful) const {
  const std::size_t required = holders_required(now);
  const bool hurried = past_deadline(now);
  std::set<ContributionKey> usable;
  for (const auto& [key, candidate] : candidates_.all()) {
    const Contribution& made = candidate.contribution;
    if (made.sits_out || !has_its_turn(key) || !comes_as_the_round_does(made)) continue;
    if (careful && left_out_.contains(key.region)) continue;
    const bool enough =
        sharded_ ? candidates_.is_own_word(candidate) &&
                       candidates_.supply_of(candidate, up_).is_enough(hurried, careful && strict_)
                 : candidates_.is_obtainable(candidate, required, up_);
    if (enough) usable.insert(key);
  }
  if (sharded_ && !usable.empty()) leave_out_other_cuts(usable);
  return usable;
}

bool Decider::comes_as_the_round_does(const Contribution& contribution) const {
  const bool whole = contribution.shards.empty();
  return sharded_ ? !whole && is_fresh(key_of(contribution)) : whole;
}

// All regions cut the same model the same way, but for one that lies.
void Decider::leave_out_other_cuts(std::set<ContributionKey>& usable) const {
  const auto shards_of = [this](const ContributionKey& key) {
    return candidates_.at(key).contribution.shards.size();
  };
  std::map<std::size_t, std::size_t> cuts;
  for (const ContributionKey& key : usable) ++cuts[shards_of(key)];
  const auto most = std::ranges::max_element(cuts, {}, [](const auto& cut) { return cut.second; });
  std::erase_if(usable, [&](const ContributionKey& key) { return shards_of(key) != most->first; });
}

std::size_t Decider::holders_required(Time now) const {
  if (plants(options_.planted, PlantedBug::list_unspooled)) return 1;
  return diloco::holders_required(membership_, up_, past_deadline(now));
}

// ---- How long it waits ----

// Who is new contributes nothing.
bool Decider::complete() const {
  if (rests_on_one_word()) return false;
  return std::ranges::all_of(attached_, [this](const std::string& region) {
    return standings_.is_new(region) || settled(region);
  });
}

// Nothing more is to come from it for this round.
bool Decider::settled(const std::string& region) const {
  return sits_out(region) || usable_.contains({region, round_, 0});
}

// Late contributions can fill a round at which one region stands alone. Its word for the state is
// not enough while another one is there that can still say what it holds: a damaged memory or a lie
// would become the run's state. If that one never comes, there is no fresh work to wait for either.
// A round that one of two regions may fill alone, with a witness, waits no longer than for work:
// the other's worker may be gone, and this region is to go on without it.
bool Decider::rests_on_one_word() const {
  const std::optional<std::string> only =
      round_ == 0 ? std::nullopt : states_.only_known(candidates_);
  if (!only) return false;
  const bool alone = contributors() < 2;
  if (alone && options_.contributions_min > 0) return false;
  const std::set<std::string>& others = alone ? attached_ : membership_.regions();
  return std::ranges::any_of(
      others, [&](const std::string& region) { return region != *only && up_.contains(region); });
}

std::optional<Time> Decider::deadline() const {
  if (!quorum_at_) return std::nullopt;
  if (rests_on_one_word())
    return contributors() < 2 ? std::optional(*quorum_at_ + grace_.length()) : std::nullopt;
  Time deadline = *quorum_at_ + grace();
  // What moves but is late is listed later, if that may be.
  const auto told =
      static_cast<std::size_t>(std::ranges::count_if(candidates_.all(), [this](const auto& entry) {
        return candidates_.is_own_word(entry.second);
      }));
  const bool moving = told > usable_.size() && progress_at_ && !may_come_late();
  if (moving) deadline = std::max(deadline, *progress_at_ + options_.grace_min);
  return std::min(deadline, *quorum_at_ + options_.grace_max);
}

bool Decider::past_deadline(Time now) const {
  const std::optional<Time> at = deadline();
  return at && now >= *at;
}

// What moves until the deadline puts it off.
std::optional<Time> Decider::latest_end() const {
  const std::optional<Time> at = deadline();
  return at && !may_come_late() ? *quorum_at_ + options_.grace_max : at;
}

// As the regions say that have contributed. Of three or more, none can make the others wait by what
// it says: it counts as at most 4 times as slow as the median, so that a quarter of that is no
// longer than the median region computes.
double Decider::longest_compute_s() const {
  constexpr double kOfMedian = 4;
  std::vector<double> took_s;
  for (const Contribution* made : candidates_.first_to(round_)) took_s.push_back(made->compute_s);
  if (took_s.empty()) return 0;
  std::ranges::sort(took_s);
  const double longest_s = took_s.back();
  return took_s.size() < 3 ? longest_s : std::min(longest_s, kOfMedian * took_s[took_s.size() / 2]);
}

// A region that may be listed later is not worth more waiting than a quarter of a round's compute,
// or the part of it that goes on meanwhile (docs/rounds.md, "The grace period").
Time Decider::grace() const {
  const double compute_s = longest_compute_s();
  const bool may_be_late = may_come_late() && compute_s > 0 && compute_s < 1e9;
  if (!may_be_late) return grace_.length();
  const double round_steps = std::max(1.0, double(options_.pace.k) / options_.pace.fragments);
  const double share = std::clamp(options_.overlap_steps / round_steps, 0.25, 1.0);
  const Time worth{static_cast<Time::rep>(compute_s * share * 1e6)};
  return std::min(grace_.length(), std::max(options_.grace_min, worth));
}

// A region that stood at this round and was reachable but still missed it is slow, not gone: it
// counts as twice the grace, so that the grace grows until it fits.
void Decider::learn_lateness() {
  const bool missed = std::ranges::any_of(attached_, [this](const std::string& region) {
    return !settled(region) && up_.contains(region) && states_.is_applied_by(region);
  });
  if (missed) {
    grace_.add(2 * grace_.length());
  } else if (contributors() > contributions_min_) {
    grace_.add(last_usable_at_ - *quorum_at_);
  }
}

// ---- In words ----

namespace {

std::string in_seconds(Time time) {
  using std::chrono::seconds;
  const auto whole = std::chrono::duration_cast<seconds>(time).count();
  return fmt::format("{} s", std::max<std::int64_t>(0, whole));
}

}  // namespace

std::string Decider::describe(const std::string& region) const {
  const Candidate* const found = candidates_.find({region, round_, 0});
  if (found == nullptr || !candidates_.is_own_word(*found)) {
    return region + (up_.contains(region) ? " (no contribution yet)" : " (unreachable)");
  }
  const Candidate& candidate = *found;
  const std::size_t holding = candidate.holders.size() - candidate.holders.count(region);
  if (sharded_) {
    return fmt::format("{} ({} of {} other regions hold their shards of its payload)", region,
                       holding, summers().usual_count() - (summers().includes(region) ? 1 : 0));
  }
  std::uint64_t most = 0;
  for (const auto& [holder, bytes] : candidate.received_bytes)
    if (holder != region) most = std::max(most, bytes);
  return fmt::format("{} ({} of {} payload bytes at {} other regions)", region, most,
                     candidate.contribution.payload.size_bytes, holding);
}

std::string Decider::sitting_out() const {
  std::string names;
  for (const std::string& region : membership_.regions())
    if (sits_out(region)) inter::append_item(names, region);
  return names.empty() ? ""
                       : " (" + names +
                             " sit this round out, because what they have to contribute cannot be "
                             "used: their logs say why)";
}

std::string Decider::waiting_for(Time now) const {
  std::string text;
  for (const std::string& region : attached_) {
    if (!settled(region)) inter::append_item(text, describe(region));
  }
  const std::size_t count = contributors();
  if (text.empty() && count >= contributions_min_) return {};
  if (text.empty()) text = "any region" + sitting_out();
  text += fmt::format(" for round {}", round_);
  // Until enough are held nothing bounds the round.
  const std::optional<Time> until = count < contributions_min_ ? std::nullopt : latest_end();
  if (until && now < *until) return text + ", at most " + in_seconds(*until - now) + " more";
  return fmt::format("{}; it needs {} and has {}", text,
                     contributions_min_ == 1
                         ? "1 contribution"
                         : std::to_string(contributions_min_) + " contributions",
                     count);
}

}  // namespace causeway::diloco
