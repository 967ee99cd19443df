// Which change of the membership the leader proposes next: one that an operator asked for, or one
// of a vote. One at a time; the log has the earlier one first.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"

namespace causeway::diloco {

class MemberChanges {
 public:
  // Both must outlive this.
  MemberChanges(Region& region, const Beginning& beginning)
      : self_(region.options.self),
        agreement_(region.agreement),
        peers_(region.peers),
        history_(region.history),
        worker_(region.worker),
        beginning_(beginning),
        out_(region.out) {}

  // `by`: this region if its own operator asks, otherwise a member, who may lie. A member's word is
  // enough for what is about itself, for a new region, and to remove one without a vote. For
  // anything else more than half of the members must say the same, whom it is about not counted.
  // Nobody's word changes the role of a member, or adds what can be no name or address.
  void ask(const ChangeMember& change, const std::string& by);
  void clear() { asked_.clear(); }
  // The membership to propose now, if any. The log keeps every one of them for ever, so what a
  // member says alone gives some at once and then one every half minute.
  std::optional<Membership> next(Time now);

 private:
  struct Asked {
    ChangeMember change;
    std::set<std::string> by;
  };
  struct Budget {
    int left = 64;
    Time renewed{0};
  };
  bool may_spend(const std::string& member, Time now);
  bool may_propose(const Asked& asked, Time now);
  std::optional<Membership> next_asked(Time now);
  bool suffices(const Asked& asked) const;
  void note_who_asked(const ChangeMember& change, const std::set<std::string>& by) const;
  bool changes_role(const ChangeMember& change) const;
  std::optional<Membership> next_vote(Time now);
  std::optional<Membership> first_votes() const;
  bool is_candidate(const Member& member) const;  // for a vote
  Membership with_vote_of(const Membership& membership, Member member) const;
  bool can_make_rounds_with(const Member& member) const;
  bool leaves_too_few(const std::string& region, const Membership& changed);
  bool takes_the_beginning(const std::string& region, const Membership& changed);

  const std::string& self_;
  const Agreement& agreement_;
  const Peers& peers_;
  const RunHistory& history_;
  const AttachedWorker& worker_;
  const Beginning& beginning_;
  Outbox& out_;
  std::deque<Asked> asked_;
  std::map<std::string, Budget> budgets_;  // of members, for changes by their word
};

}  // namespace causeway::diloco
