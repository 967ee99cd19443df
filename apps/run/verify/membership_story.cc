#include "apps/run/verify/membership_story.h"

#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "inter/base/text.h"

namespace causeway::run {
namespace {

std::string newcomer_text(const diloco::Member& member) {
  return member.region + (member.witness ? ", a witness" : "") +
         (member.incarnation.empty() ? " (no vote yet)" : " (votes)");
}

std::string change_text(const diloco::Member& before, const diloco::Member& now) {
  if (before.incarnation != now.incarnation) {
    if (before.incarnation.empty()) return now.region + " votes from now on";
    if (now.incarnation.empty()) return "the vote of " + now.region + " lapses";
    return "the vote of " + now.region + " goes to its new disk";
  }
  return now.region + " is at " + (now.address.empty() ? "no address" : now.address);
}

std::vector<std::string> changes_between(const diloco::Membership& before,
                                         const diloco::Membership& now) {
  std::vector<std::string> changes;
  for (const diloco::Member& member : now.members) {
    const diloco::Member* known = before.find(member.region);
    if (known == nullptr) {
      changes.push_back((before.members.empty() ? "" : "new: ") + newcomer_text(member));
    } else if (!(*known == member)) {
      changes.push_back(change_text(*known, member));
    }
  }
  for (const diloco::Member& member : before.members)
    if (now.find(member.region) == nullptr) changes.push_back(member.region + " was removed");
  return changes;
}

}  // namespace

std::string MembershipStory::tell(const diloco::LogEntry& entry) {
  const auto* now = std::get_if<diloco::Membership>(&entry.body);
  if (now == nullptr) return "a new leader was elected";
  const bool first = known_.members.empty();
  std::string text;
  for (const std::string& change : changes_between(known_, *now)) {
    inter::append_item(text, change);
  }
  const bool founders = !first && now->origin && !known_.origin;
  known_ = *now;
  if (founders) inter::append_item(text, "the run begins with the founder's initial values");
  if (text.empty()) text = "no change";
  if (first && now->origin)
    text += fmt::format("; forked from run {} at version {}", now->origin->run_id,
                        now->origin->version);
  return (first ? "the run begins with " : "members: ") + text;
}

nlohmann::json MembershipStory::json(const diloco::LogEntry& entry) {
  const auto* now = std::get_if<diloco::Membership>(&entry.body);
  nlohmann::json json{{"kind", now == nullptr ? "leader" : "members"}, {"text", tell(entry)}};
  if (now == nullptr) return json;
  json["members"] = nlohmann::json::array();
  for (const diloco::Member& member : now->members) {
    json["members"].push_back({{"region", member.region},
                               {"address", member.address},
                               {"witness", member.witness},
                               {"votes", !member.incarnation.empty()}});
  }
  return json;
}

}  // namespace causeway::run
