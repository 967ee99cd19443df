#include "diloco/round/member_changes.h"

#include <utility>

#include "inter/base/append_item.h"

namespace causeway::diloco {

std::optional<Membership> MemberChanges::next() {
  if (!agreement_.raft().electorate().settled()) return std::nullopt;
  if (std::optional<Membership> asked = next_asked()) return asked;
  return next_vote();
}

std::optional<Membership> MemberChanges::next_asked() {
  while (!asked_.empty()) {
    const ChangeMember change = asked_.front();
    asked_.pop_front();
    const Membership& membership = agreement_.members();
    const Member* known = membership.find(change.member.region);
    Membership changed = without(membership, change.member.region);
    if (!change.remove) {
      Member member = change.member;
      member.incarnation = known == nullptr ? "" : known->incarnation;
      changed = with(membership, std::move(member));
    }
    if (changed == membership || changed.members.empty()) continue;
    if (change.remove && leaves_too_few(change.member.region, changed)) continue;
    return changed;
  }
  return std::nullopt;
}

// Without most of the votes no round is made.
bool MemberChanges::leaves_too_few(const std::string& region, const Membership& changed) {
  const Member* leaving = agreement_.members().find(region);
  const bool had_vote = leaving != nullptr && !leaving->incarnation.empty();
  if (!had_vote || changed.voters() >= changed.majority()) return false;
  std::string voteless;
  for (const Member& member : changed.members) {
    if (member.incarnation.empty()) inter::append_item(voteless, member.region);
  }
  out_.note(Note::Severity::error,
            region +
                " is not removed, because too few of the others have a vote. Wait until these " +
                "have caught up (`causeway members list`), or remove them first: " + voteless);
  return true;
}

// A region that has caught up gets its vote; one that came back with another disk loses it.
std::optional<Membership> MemberChanges::next_vote() {
  for (const Member& member : agreement_.members().members) {
    const std::string incarnation = peers_.incarnation(member.region);
    if (member.region == self_ || incarnation.empty()) continue;
    Member changed = member;
    if (member.incarnation.empty() && agreement_.raft().caught_up(member.region)) {
      changed.incarnation = incarnation;
    } else if (!member.incarnation.empty() && member.incarnation != incarnation) {
      out_.note(Note::Severity::warning,
                member.region +
                    " came back without its ledger, so it has no vote until it has caught up");
      changed.incarnation.clear();
    } else {
      continue;
    }
    return with(agreement_.members(), std::move(changed));
  }
  return std::nullopt;
}

}  // namespace causeway::diloco
