#include "diloco/round/standings.h"

#include <algorithm>

namespace causeway::diloco {

void Standings::start_from(const CommitRecord& newest) {
  liveness_.clear();
  for (const Standing& standing : newest.standings) liveness_[standing.region] = standing.liveness;
}

double Standings::liveness(const std::string& region) const {
  if (liveness_.empty()) return 1;
  const auto found = liveness_.find(region);
  return found == liveness_.end() ? 0 : found->second;
}

bool Standings::is_new(const std::string& region) const {
  return !liveness_.empty() && !liveness_.contains(region);
}

std::size_t Standings::living(const Membership& membership) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(membership.members, [this](const Member& member) {
        return !member.witness && (!member.incarnation.empty() || liveness(member.region) > 0);
      }));
}

}  // namespace causeway::diloco
