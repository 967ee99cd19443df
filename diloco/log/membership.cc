#include "diloco/log/membership.h"

#include <algorithm>

namespace causeway::diloco {

const Member* Membership::find(const std::string& region) const {
  const auto found = std::ranges::find(members, region, &Member::region);
  return found == members.end() ? nullptr : &*found;
}

bool Membership::trains(const std::string& region) const {
  const Member* member = find(region);
  return member != nullptr && !member->witness;
}

bool Membership::votes(const std::string& region, const std::string& incarnation) const {
  const Member* member = find(region);
  return member != nullptr && !incarnation.empty() && member->incarnation == incarnation;
}

std::size_t Membership::voters() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(members, [](const Member& one) { return !one.incarnation.empty(); }));
}

std::set<std::string> Membership::regions() const {
  std::set<std::string> names;
  for (const Member& member : members) {
    if (!member.witness) names.insert(member.region);
  }
  return names;
}

std::size_t Membership::region_count() const {
  return static_cast<std::size_t>(std::ranges::count(members, false, &Member::witness));
}

std::size_t Membership::most_of(std::size_t regions) const {
  const auto witnesses = static_cast<std::size_t>(std::ranges::count_if(
      members, [](const Member& member) { return member.witness && !member.incarnation.empty(); }));
  const std::size_t majority = (regions + witnesses) / 2 + 1;
  return majority > witnesses ? majority - witnesses : 1;
}

Membership with(const Membership& membership, Member member) {
  Membership changed = without(membership, member.region);
  const auto at = std::ranges::lower_bound(changed.members, member.region, {}, &Member::region);
  changed.members.insert(at, std::move(member));
  return changed;
}

Membership without(const Membership& membership, const std::string& region) {
  Membership changed = membership;
  std::erase_if(changed.members, [&region](const Member& one) { return one.region == region; });
  return changed;
}

}  // namespace causeway::diloco
