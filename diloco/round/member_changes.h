// Which change of the membership the leader proposes next: one that an operator asked for, or one
// of a vote. One at a time; the log has the earlier one first.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "diloco/region/region.h"

namespace causeway::diloco {

class MemberChanges {
 public:
  explicit MemberChanges(Region& region)
      : self_(region.options.self),
        agreement_(region.agreement),
        peers_(region.peers),
        out_(region.out) {}

  void ask(const ChangeMember& change) { asked_.push_back(change); }
  void clear() { asked_.clear(); }
  // The membership to propose now, if any.
  std::optional<Membership> next();

 private:
  std::optional<Membership> next_asked();
  std::optional<Membership> next_vote();
  bool leaves_too_few(const std::string& region, const Membership& changed);

  const std::string& self_;
  const Agreement& agreement_;
  const Peers& peers_;
  Outbox& out_;
  std::deque<ChangeMember> asked_;
};

}  // namespace causeway::diloco
