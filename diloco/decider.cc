#include "diloco/decider.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace causeway::diloco {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

constexpr Time kGraceUnmeasured = seconds{60};

std::string in_seconds(Time time) {
  return std::to_string(std::max<std::int64_t>(0, duration_cast<seconds>(time).count())) + " s";
}

}  // namespace

Grace::Grace(Time min, Time max) : min_(min), max_(std::max(min, max)) {}

Time Grace::length() const {
  if (!measured_) return std::clamp(kGraceUnmeasured, min_, max_);
  const double estimate_us =
      std::min(mean_us_ + 4 * deviation_us_, static_cast<double>(max_.count()));
  return std::clamp(Time{static_cast<Time::rep>(estimate_us)}, min_, max_);
}

void Grace::add(Time lateness) {
  const auto sample_us = static_cast<double>(lateness.count());
  if (!measured_) {
    mean_us_ = sample_us;
    deviation_us_ = sample_us / 2;
    measured_ = true;
    return;
  }
  deviation_us_ += (std::abs(sample_us - mean_us_) - deviation_us_) / 4;
  mean_us_ += (sample_us - mean_us_) / 8;
}

Decider::Decider(const ProtocolOptions& options, const CommitRecord* last)
    : options_(options), grace_(options.grace_min, options.grace_max), up_{options.self} {
  if (last == nullptr) {
    attached_ = options_.roster;
  } else {
    open_next(*last);
  }
}

void Decider::open_next(const CommitRecord& committed) {
  round_ = committed.round + 1;
  attached_.clear();
  for (const Participant& participant : committed.participants) {
    attached_.insert(participant.region);
  }
  for (const auto& [region, applied] : applied_) {
    if (up_.contains(region) && applied.version == round_) attached_.insert(region);
  }
  candidates_.clear();
  diverged_.clear();
  usable_.clear();
  quorum_at_.reset();
  progress_at_.reset();
}

void Decider::set_up(const std::string& region, bool up) {
  if (up) {
    up_.insert(region);
    // It says anew what it holds: it may have lost its disk.
    for (auto& [contributor, candidate] : candidates_) candidate.received_bytes.erase(region);
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
  if (applied->version == round_ && !diverged_.contains(region)) attached_.insert(region);
}

void Decider::add(const Contribution& contribution, const std::string& holder,
                  std::uint64_t received_bytes, Time now) {
  if (contribution.round != round_) return;
  const std::string& region = contribution.region;
  const auto diverged = diverged_.find(region);
  if (diverged != diverged_.end() && diverged->second == contribution.state) return;

  Candidate& candidate = candidates_[region];
  if (candidate.contribution.payload != contribution.payload) {
    // A region may replace its own contribution after it lost its disk; a holder of the old one
    // says nothing about the new.
    if (!candidate.received_bytes.empty() && holder != region) return;
    candidate = {};
  }
  // Whoever passes a contribution on got it from its contributor.
  if (candidate.received_bytes.empty()) {
    candidate.received_bytes[region] = contribution.payload.size_bytes;
  }
  candidate.contribution = contribution;
  attached_.insert(region);
  std::uint64_t& known_bytes = candidate.received_bytes[holder];
  if (received_bytes > known_bytes) {
    known_bytes = received_bytes;
    progress_at_ = now;
  }
}

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

bool Decider::usable(const std::string& region) const {
  return usable_.contains(region);
}

// Two holders survive the loss of any one region. After the deadline a region that is cut off
// cannot be asked to hold anything, so a lone region that may commit by itself does.
std::size_t Decider::holders_required(Time now) const {
  if (!past_deadline(now)) return std::min<std::size_t>(2, attached_.size());
  const auto reachable = std::ranges::count_if(
      attached_, [this](const std::string& region) { return up_.contains(region); });
  return std::clamp<std::size_t>(static_cast<std::size_t>(reachable), 1, 2);
}

std::optional<Time> Decider::deadline() const {
  if (!quorum_at_) return std::nullopt;
  Time deadline = *quorum_at_ + grace_.length();
  const bool moving = candidates_.size() > usable_.size() && progress_at_;
  if (moving) deadline = std::max(deadline, *progress_at_ + options_.grace_min);
  return std::min(deadline, *quorum_at_ + options_.grace_max);
}

bool Decider::past_deadline(Time now) const {
  const std::optional<Time> at = deadline();
  return at && now >= *at;
}

// Brings the set of usable contributions up to date.
void Decider::refresh(Time now) {
  if (!quorum_at_ && candidates_.size() >= options_.contributions_min) quorum_at_ = now;
  const std::size_t required = holders_required(now);
  std::set<std::string> usable;
  for (const auto& [region, candidate] : candidates_) {
    if (obtainable(candidate, required)) usable.insert(region);
  }
  if (usable.size() > usable_.size()) last_usable_at_ = now;
  usable_ = std::move(usable);
}

Decider::Verdict Decider::decide(Time now) {
  Verdict verdict;
  if (round_ >= options_.rounds) return verdict;
  refresh(now);
  const bool complete =
      std::ranges::all_of(attached_, [this](const std::string& region) { return usable(region); });
  const bool enough = usable_.size() >= options_.contributions_min;
  if (!enough || !(complete || past_deadline(now))) return verdict;

  verdict.state = agreed_state();
  verdict.diverged = remove_diverged(verdict.state);
  if (usable_.size() < options_.contributions_min) return verdict;
  learn_lateness();
  verdict.record = make_record(verdict.state);
  return verdict;
}

// The state that most usable contributions start from; of equally frequent ones the decider's own,
// then that of the first region by name.
Digest Decider::agreed_state() const {
  std::map<Digest, std::size_t> votes;
  for (const std::string& region : usable_) ++votes[candidates_.at(region).contribution.state];
  std::size_t most = 0;
  for (const auto& [state, count] : votes) most = std::max(most, count);

  const auto own = applied_.find(options_.self);
  if (own != applied_.end() && own->second.version == round_) {
    const auto vote = votes.find(own->second.state);
    if (vote != votes.end() && vote->second == most) return vote->first;
  }
  for (const std::string& region : usable_) {
    const Digest& state = candidates_.at(region).contribution.state;
    if (votes[state] == most) return state;
  }
  assert(!"a round is judged only when something is usable");
  return {};
}

std::vector<std::string> Decider::remove_diverged(const Digest& agreed) {
  std::vector<std::string> diverged;
  for (const std::string& region : usable_) {
    const Digest& state = candidates_.at(region).contribution.state;
    if (state == agreed) continue;
    diverged.push_back(region);
    diverged_[region] = state;
  }
  for (const std::string& region : diverged) {
    usable_.erase(region);
    candidates_.erase(region);
    attached_.erase(region);
  }
  return diverged;
}

CommitRecord Decider::make_record(const Digest& agreed) const {
  double tokens_sum = 0;
  for (const std::string& region : usable_) {
    tokens_sum += static_cast<double>(candidates_.at(region).contribution.tokens);
  }
  CommitRecord record{.run_id = candidates_.at(*usable_.begin()).contribution.run_id,
                      .round = round_,
                      .participants = {},
                      .state = agreed,
                      .expired_before = round_ + 1,
                      .next_k = options_.k};
  for (const std::string& region : usable_) {  // ascending: the order of summation
    const Contribution& contribution = candidates_.at(region).contribution;
    const double weight = tokens_sum > 0 ? static_cast<double>(contribution.tokens) / tokens_sum
                                         : 1.0 / static_cast<double>(usable_.size());
    record.participants.push_back({.region = region,
                                   .round = round_,
                                   .weight = static_cast<float>(weight),
                                   .data_cursor = contribution.data_cursor,
                                   .tokens = contribution.tokens,
                                   .payload = contribution.payload});
  }
  return record;
}

// A region that stood at this round and was reachable but still missed it is slow, not gone: it
// counts as twice the grace, so that the grace grows until it fits.
void Decider::learn_lateness() {
  const bool missed = std::ranges::any_of(attached_, [this](const std::string& region) {
    const auto applied = applied_.find(region);
    return !usable(region) && up_.contains(region) && applied != applied_.end() &&
           applied->second.version == round_;
  });
  if (missed) {
    grace_.add(2 * grace_.length());
  } else if (usable_.size() > options_.contributions_min) {
    grace_.add(last_usable_at_ - *quorum_at_);
  }
}

std::string Decider::waiting_for(Time now) const {
  std::string text;
  for (const std::string& region : attached_) {
    if (usable(region)) continue;
    text += (text.empty() ? "" : ", ") + region;
    const auto found = candidates_.find(region);
    if (found == candidates_.end()) {
      text += up_.contains(region) ? " (no contribution yet)" : " (unreachable)";
      continue;
    }
    std::uint64_t most = 0;
    for (const auto& [holder, bytes] : found->second.received_bytes) {
      if (holder != region) most = std::max(most, bytes);
    }
    text += " (" + std::to_string(most) + " of " +
            std::to_string(found->second.contribution.payload.size_bytes) + " payload bytes at " +
            std::to_string(holders(found->second) - 1) + " other regions)";
  }
  if (text.empty() && usable_.size() >= options_.contributions_min) return {};
  if (text.empty()) text = "any region";
  text += " for round " + std::to_string(round_);
  const std::optional<Time> until = deadline();
  if (until && now < *until) return text + ", at most " + in_seconds(*until - now) + " more";
  return text + "; it needs " + std::to_string(options_.contributions_min) +
         " contributions and has " + std::to_string(usable_.size());
}

}  // namespace causeway::diloco
