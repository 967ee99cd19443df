// Decider: which contributions are usable, and how long the others are waited for.
#include <algorithm>

#include "diloco/round/decider.h"

namespace causeway::diloco {

// ---- What can be listed ----

std::size_t Decider::holders(const Candidate& candidate) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(candidate.received_bytes, [&candidate](const auto& holder) {
        return holder.second >= candidate.contribution.payload.size_bytes;
      }));
}

// Held by enough regions, one of which can be asked now. A region that can speak for itself does:
// what another one passes on in its name may be made up.
bool Decider::obtainable(const Candidate& candidate, std::size_t holders_required) const {
  const std::string& region = candidate.contribution.region;
  if (up_.contains(region) && !candidate.received_bytes.contains(region)) return false;
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
  if (plants(options_.planted, PlantedBug::list_unspooled)) return 1;
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

// Late contributions can fill a round at which one region stands alone. Its word for the state is
// not enough while another one is there that can still say what it holds: a damaged memory or a lie
// would become the run's state. If that one never comes, there is no fresh work to wait for either.
bool Decider::rests_on_one_word() const {
  const std::map<std::string, Digest> states = states_at_round();
  if (round_ == 0 || states.size() != 1 || contributors() < 2) return false;
  return std::ranges::any_of(membership_.regions(), [this, &states](const std::string& region) {
    return up_.contains(region) && !states.contains(region);
  });
}

std::optional<Time> Decider::deadline() const {
  if (!quorum_at_ || rests_on_one_word()) return std::nullopt;
  Time deadline = *quorum_at_ + grace();
  // What moves but is late is listed later, if that may be.
  const bool moving =
      candidates_.size() > usable_.size() && progress_at_ && options_.staleness_max == 0;
  if (moving) deadline = std::max(deadline, *progress_at_ + options_.grace_min);
  return std::min(deadline, *quorum_at_ + options_.grace_max);
}

// A region that may be listed later is not worth more waiting than a quarter of a round's compute,
// or the part of it that goes on meanwhile (docs/rounds.md, "What happens to a contribution").
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

// A region that never came, or lost its disk and stays away, is none that a round could wait for.
std::size_t Decider::contributions_min() const {
  const auto counts = [this](const Member& member) {
    const auto standing = standings_.find(member.region);
    const bool lives = standing != standings_.end() && standing->second.liveness > 0;
    return !member.witness && (!member.incarnation.empty() || standings_.empty() || lives);
  };
  const auto regions = static_cast<std::size_t>(std::ranges::count_if(membership_.members, counts));
  const std::size_t wanted =
      options_.contributions_min == 0 ? regions / 2 + 1 : options_.contributions_min;
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
  if (rests_on_one_word()) return false;
  return std::ranges::all_of(attached_, [this](const std::string& region) {
    const bool new_here = !standings_.empty() && !standings_.contains(region);
    return new_here || settled(region);
  });
}

}  // namespace causeway::diloco
