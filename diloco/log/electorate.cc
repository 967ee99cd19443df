#include "diloco/log/electorate.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace causeway::diloco {

Electorate::Electorate(std::string self, std::string incarnation, PlantedBug planted)
    : self_(std::move(self)), planted_(planted), incarnations_{{self_, std::move(incarnation)}} {}

void Electorate::connect(const std::string& region, const std::string& incarnation) {
  incarnations_[region] = incarnation;
}

void Electorate::note(Index index, const LogEntry& entry) {
  const auto* membership = std::get_if<Membership>(&entry.body);
  if (membership == nullptr) return;
  // The newest that is committed decides with those after it.
  if (settled() && memberships_.size() > 1) {
    memberships_.erase(memberships_.begin(), memberships_.end() - 1);
  }
  memberships_.push_back({index, *membership});
}

void Electorate::truncate_from(Index index) {
  while (!memberships_.empty() && memberships_.back().index >= index) memberships_.pop_back();
}

const Membership& Electorate::membership() const {
  static const Membership none;
  if (memberships_.empty()) return none;
  return memberships_.back().membership;
}

bool Electorate::settled() const {
  return memberships_.empty() || memberships_.back().index <= committed_;
}

const Membership* Electorate::replaced() const {
  if (settled() || memberships_.size() < 2) return nullptr;
  return &memberships_[memberships_.size() - 2].membership;
}

bool Electorate::votes(const std::string& region, const Membership& membership) const {
  const auto connected = incarnations_.find(region);
  return connected != incarnations_.end() && membership.votes(region, connected->second);
}

// Whoever is being removed may be the only one that knows of it: it stands until that is committed
// (Ongaro's dissertation, 4.2.2).
bool Electorate::may_stand() const {
  const Membership* before = replaced();
  return votes(self_) || (before != nullptr && votes(self_, *before));
}

// Voters whose disk is known to be gone.
std::size_t Electorate::lost_voters(const Membership& membership) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(membership.members, [this](const Member& member) {
        const auto connected = incarnations_.find(member.region);
        return !member.incarnation.empty() && connected != incarnations_.end() &&
               connected->second != member.incarnation;
      }));
}

std::size_t Electorate::quorum(const Membership& membership) const {
  const std::size_t voters = membership.voters();
  const std::size_t majority = voters / 2 + 1;
  if (plants(planted_, PlantedBug::commit_without_majority)) return 1;
  const std::size_t lost = lost_voters(membership);
  return lost < majority ? std::min(majority, voters - lost) : majority;
}

bool Electorate::is_quorum(const std::set<std::string>& regions,
                           const Membership& membership) const {
  const auto counts = [&](const std::string& region) { return votes(region, membership); };
  return static_cast<std::size_t>(std::ranges::count_if(regions, counts)) >= quorum(membership);
}

// A majority of the newest members; where a vote is added, of those before it too: of an even
// number half may stand for election alone if the others lost their disks, and must not have missed
// it. Nor may two leaders be elected in one term, by the members before and by those after. Whoever
// is removed is not needed: it may be gone as soon as it has the entry.
bool Electorate::may_decide(const std::set<std::string>& regions) const {
  if (!is_quorum(regions, membership())) return false;
  const Membership* before = replaced();
  return before == nullptr || before->voters() >= membership().voters() ||
         is_quorum(regions, *before);
}

}  // namespace causeway::diloco
