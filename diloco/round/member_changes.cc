#include "diloco/round/member_changes.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "inter/base/region_name.h"
#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

// Whether it leads anywhere is not known here. But all that is agreed on stays in everybody's log
// for ever.
bool can_be_address(const std::string& text) {
  const auto allowed = [](char c) { return c >= ' ' && c <= '~'; };
  return text.size() <= kAddressBytesMax && std::ranges::all_of(text, allowed);
}

}  // namespace

std::optional<Membership> MemberChanges::next(Time now) {
  if (!agreement_.raft().electorate().settled()) return std::nullopt;
  if (std::optional<Membership> asked = next_asked(now)) return asked;
  return next_vote(now);
}

bool MemberChanges::may_spend(const std::string& member, Time now) {
  constexpr Time kRenewal = std::chrono::seconds{30};
  const auto [entry, is_new] = budgets_.try_emplace(member);
  Budget& budget = entry->second;
  if (is_new) budget.renewed = now;
  while (budget.left < Budget{}.left && budget.renewed + kRenewal <= now) {
    ++budget.left;
    budget.renewed += kRenewal;
  }
  if (budget.left == 0) return false;
  if (budget.left-- == Budget{}.left) budget.renewed = now;
  return true;
}

bool MemberChanges::may_propose(const Asked& asked, Time now) {
  return asked.by.contains(self_) ||
         std::ranges::any_of(asked.by, [&](const auto& member) { return may_spend(member, now); });
}

void MemberChanges::ask(const ChangeMember& change, const std::string& by) {
  constexpr auto kPerMember = 8;
  const Member& asked_for = change.member;
  if (!change.remove &&
      !(inter::can_name_region(asked_for.region) && can_be_address(asked_for.address))) {
    return out_.note(Note::Severity::warning,
                     by + " asks for a member whose name or address is not valid: ignored");
  }
  const auto same = std::ranges::find_if(asked_, [&change](const Asked& asked) {
    return asked.change.remove == change.remove && asked.change.member == change.member;
  });
  if (same != asked_.end()) return same->by.insert(by), void();
  const bool floods = std::ranges::count_if(asked_, [&by](const Asked& asked) {
                        return asked.by.contains(by);
                      }) >= kPerMember;
  if (floods && by != self_) return;
  asked_.push_back({change, {by}});
  if (suffices(asked_.back()) || !change.remove) return;
  out_.note(Note::Severity::warning,
            by + " asks to remove " + change.member.region +
                ". More members must ask for that, or the operator here, at the leader. If it is "
                "to go, run `causeway members remove` here too");
}

bool MemberChanges::suffices(const Asked& asked) const {
  const Membership& membership = agreement_.members();
  const std::string& region = asked.change.member.region;
  if (asked.by.contains(self_) || asked.by.contains(region)) return true;
  const Membership others = without(membership, region);
  const auto words = static_cast<std::size_t>(std::ranges::count_if(
      others.members, [&asked](const Member& member) { return asked.by.contains(member.region); }));
  if (2 * words > others.members.size()) return true;
  if (words == 0) return false;
  if (asked.change.remove) return others.voters() == membership.voters();
  // One after the other: each counts among those of whom most must vote.
  return others == membership && membership.voters() == membership.members.size();
}

std::optional<Membership> MemberChanges::next_asked(Time now) {
  for (auto asked = asked_.begin(); asked != asked_.end();) {
    const ChangeMember change = asked->change;
    const std::set<std::string> by = asked->by;
    const Membership& membership = agreement_.members();
    const Member* known = membership.find(change.member.region);
    Membership changed = without(membership, change.member.region);
    if (!change.remove) {
      Member member = change.member;
      member.incarnation = known == nullptr ? "" : known->incarnation;
      changed = with(membership, std::move(member));
    }
    const bool nothing = changed == membership || changed.members.empty() || changes_role(change);
    if (!nothing && !(suffices(*asked) && may_propose(*asked, now))) {
      ++asked;
      continue;
    }
    asked = asked_.erase(asked);
    const std::string& region = change.member.region;
    const bool needed =
        change.remove && (leaves_too_few(region, changed) || takes_the_beginning(region, changed));
    if (nothing || needed) continue;
    if (!by.contains(self_)) note_who_asked(change, by);
    return changed;
  }
  return std::nullopt;
}

// The log of the run does not say it.
void MemberChanges::note_who_asked(const ChangeMember& change,
                                   const std::set<std::string>& by) const {
  const std::string& region = change.member.region;
  std::string who;
  for (const std::string& member : by) inter::append_item(who, member);
  std::string what = fmt::format("the address of {} is now \"{}\"", region, change.member.address);
  if (change.remove) what = region + " is taken out of the run";
  if (!change.remove && agreement_.members().find(region) == nullptr)
    what = fmt::format("{} is added to the run. If it is not to be, `causeway members remove {}`",
                       region, region);
  out_.note(Note::Severity::info, fmt::format("as {} asked for it, {}", who, what));
}

// It would begin everybody's pass over the data anew, in other parts: no slip of an operator, and
// no member's word about itself, may do that.
bool MemberChanges::changes_role(const ChangeMember& change) const {
  const std::string& region = change.member.region;
  const Member* known = agreement_.members().find(region);
  if (change.remove || known == nullptr || known->witness == change.member.witness) return false;
  out_.note(Note::Severity::warning,
            "somebody asks that " + region +
                (known->witness ? ", a witness, trains" : ", which trains, is a witness") +
                ". A member keeps its role: to change it, `causeway members remove " + region +
                "`, then add it");
  return true;
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

// A run that goes on from another run's model begins where that is, and nowhere else.
bool MemberChanges::takes_the_beginning(const std::string& region, const Membership& changed) {
  const std::optional<Origin>& origin = agreement_.origin();
  if (!origin || history_.version() > 0) return false;
  const auto has_it = [&](const std::string& name) {
    const Status* status = peers_.status(name);
    const std::optional<Applied> applied = name == self_       ? worker_.applied()
                                           : status != nullptr ? status->applied
                                                               : std::nullopt;
    return applied && applied->state == origin->state;
  };
  const std::set<std::string> left = changed.regions();
  if (std::ranges::any_of(left, has_it)) return false;
  out_.note(Note::Severity::error,
            region + " is not removed, because no other region has the model yet that this run " +
                "begins with. Wait until one has made its first round");
  return true;
}

// A region that has caught up gets its vote; one that came back with another disk loses it.
std::optional<Membership> MemberChanges::next_vote(Time now) {
  const Membership& membership = agreement_.members();
  if (membership.voters() == 1 && membership.members.size() >= 3) return first_votes();
  for (const Member& member : membership.members) {
    if (is_candidate(member)) return with_vote_of(membership, member);
    const std::string& incarnation = peers_.incarnation(member.region);
    const bool voted = member.region != self_ && !member.incarnation.empty();
    if (!voted || incarnation.empty() || member.incarnation == incarnation) continue;
    if (!may_spend(member.region, now)) continue;
    out_.note(
        Note::Severity::warning,
        member.region + " came back without its ledger, so it has no vote until it has caught up");
    Member changed = member;
    changed.incarnation.clear();
    return with(membership, std::move(changed));
  }
  return std::nullopt;
}

// Of two votes neither may be missing, and a region that is refused at its start may stay away. So
// the only voter adds two at once, which needs one of them to agree, or one with which it can make
// rounds.
std::optional<Membership> MemberChanges::first_votes() const {
  const Membership& membership = agreement_.members();
  std::vector<Member> candidates;
  std::ranges::copy_if(membership.members, std::back_inserter(candidates),
                       [this](const Member& one) { return is_candidate(one); });
  if (candidates.empty()) return std::nullopt;
  const Membership changed = with_vote_of(membership, candidates[0]);
  if (candidates.size() >= 2) return with_vote_of(changed, candidates[1]);
  return can_make_rounds_with(candidates[0]) ? std::optional(changed) : std::nullopt;
}

bool MemberChanges::is_candidate(const Member& member) const {
  return member.incarnation.empty() && !peers_.incarnation(member.region).empty() &&
         agreement_.raft().caught_up(member.region);
}

Membership MemberChanges::with_vote_of(const Membership& membership, Member member) const {
  member.incarnation = peers_.incarnation(member.region);
  return with(membership, std::move(member));
}

bool MemberChanges::can_make_rounds_with(const Member& member) const {
  const Member* own = agreement_.members().find(self_);
  if (member.witness || own == nullptr || own->witness) return true;
  const Status* status = peers_.status(member.region);
  if (!worker_.applied() || status == nullptr || !status->applied) return false;
  const bool same = !worker_.data() || !status->data || same_data(*worker_.data(), *status->data);
  return same && beginning_.fits(member.region);
}

}  // namespace causeway::diloco
