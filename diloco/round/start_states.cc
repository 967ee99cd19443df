#include "diloco/round/start_states.h"

#include <algorithm>
#include <cstddef>

namespace causeway::diloco {

void StartStates::open(Round round) {
  round_ = round;
  diverged_.clear();
  rejected_.clear();
  tied_ = false;
}

bool StartStates::set_applied(const std::string& region, const std::optional<Applied>& applied) {
  if (!applied) {
    applied_.erase(region);
    return false;
  }
  applied_[region] = *applied;
  const auto diverged = diverged_.find(region);
  if (diverged != diverged_.end() && diverged->second != applied->state) diverged_.erase(diverged);
  return applied->version == round_ && !diverged_.contains(region);
}

bool StartStates::is_applied_by(const std::string& region) const {
  const auto applied = applied_.find(region);
  return applied != applied_.end() && applied->second.version == round_;
}

std::map<std::string, Digest> StartStates::known(const Candidates& candidates) const {
  std::map<std::string, Digest> states;
  for (const auto& [region, applied] : applied_) {
    if (applied.version == round_) states[region] = applied.state;
  }
  for (const Contribution* made : candidates.first_to(round_)) states[made->region] = made->state;
  return states;
}

// Asked at every event, so it makes no map of all.
std::optional<std::string> StartStates::only_known(const Candidates& candidates) const {
  std::optional<std::string> only;
  for (const auto& [region, applied] : applied_) {
    if (applied.version != round_) continue;
    if (only) return std::nullopt;
    only = region;
  }
  for (const Contribution* made : candidates.first_to(round_)) {
    if (only && *only != made->region) return std::nullopt;
    only = made->region;
  }
  return only;
}

std::optional<Digest> StartStates::agreed(const Candidates& candidates,
                                          const Membership& membership) const {
  if (round_ == 0 && membership.origin) return membership.origin->state;
  const std::map<std::string, Digest> states = known(candidates);
  std::map<Digest, std::size_t> votes;
  for (const auto& [region, state] : states) ++votes[state];
  const std::size_t electorate =
      tied_ ? std::max(states.size(), membership.region_count()) : states.size();
  for (const auto& [state, count] : votes) {
    if (2 * count > electorate) return state;
  }
  return std::nullopt;
}

std::vector<Contribution> StartStates::reject_others(const Candidates& candidates,
                                                     const std::optional<Digest>& agreed) {
  std::vector<Contribution> others;
  for (const Contribution* made : candidates.first_to(round_)) {
    if (made->state != agreed) others.push_back(*made);
  }
  tied_ = tied_ || (!agreed && !others.empty());
  for (const Contribution& made : others) {
    if (!made.sits_out) rejected_.insert(made.payload);
    if (agreed) diverged_[made.region] = made.state;
  }
  return others;
}

}  // namespace causeway::diloco
