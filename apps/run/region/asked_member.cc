#include "apps/run/region/asked_member.h"

#include <fmt/format.h>

#include "apps/run/config/config.h"
#include "apps/run/region/parse_object.h"
#include "inter/base/text.h"

namespace causeway::run {
namespace {

struct Others {
  std::string dial_only;  // their names
  std::string carriers;   // of what goes between two of these
};

// A witness carries messages, but no payloads of those that train.
Others others_of(const diloco::Membership& membership, const diloco::Member& asked) {
  Others others;
  for (const diloco::Member& member : membership.members) {
    if (member.region == asked.region) continue;
    if (member.address.empty()) {
      inter::append_item(others.dial_only, member.region);
    } else if (asked.witness || !member.witness) {
      inter::append_item(others.carriers, member.region);
    }
  }
  return others;
}

void refuse_other_role(const diloco::Member& known, const diloco::Member& asked) {
  if (known.witness || !asked.witness) return;
  throw ConfigError(fmt::format(
      "--witness: {0} is a member that trains, and a member keeps its role. To change it, take {0} "
      "out first (`causeway members remove {0}`), then add it",
      asked.region));
}

void refuse_uncarried(const diloco::Membership& membership, const diloco::Member& asked) {
  const Others others = others_of(membership, asked);
  if (!asked.address.empty() || others.dial_only.empty() || !others.carriers.empty()) return;
  throw ConfigError(
      fmt::format("NAME {0}: without an address it cannot be linked to {1}, because nobody can "
                  "dial either side; and no other region that can be dialled could pass on their "
                  "traffic. Give {0} an address (HOST:PORT), or first one to {1}",
                  asked.region, others.dial_only));
}

}  // namespace

diloco::Member asked_member(const diloco::Membership& membership, diloco::Member asked) {
  if (const diloco::Member* known = membership.find(asked.region)) {
    refuse_other_role(*known, asked);
    asked.witness = known->witness;
  }
  refuse_uncarried(membership, asked);
  return asked;
}

std::string dial_only_warning(const diloco::Membership& membership, const diloco::Member& asked) {
  const Others others = others_of(membership, asked);
  if (!asked.address.empty() || others.dial_only.empty()) return {};
  return fmt::format(
      "nobody can dial {0} or {1}: their traffic goes by way of a third region ({2}), and stops "
      "while none of these has links to both. If anybody can dial {0}, give its address",
      asked.region, others.dial_only, others.carriers);
}

std::string still_waits(const std::string& status_json, std::chrono::seconds patience) {
  const auto status = parse_object(status_json);
  const std::string leader = status ? get<std::string>(*status, "leader") : "";
  const bool leads = status && leader == get<std::string>(*status, "region");
  const std::string waits = fmt::format(
      "asked; waits up to {} s until the run has taken the change (Ctrl-C takes nothing back)",
      patience.count());
  if (leader.empty() || leads) return waits;
  return waits + fmt::format(". {} leads: ask there if that does not happen", leader);
}

std::string why_not_taken(const std::string& status_json, std::chrono::seconds patience) {
  const std::string untaken = fmt::format(
      "the run has not taken the change in {} s, but may still take it (`causeway members list` "
      "tells): ",
      patience.count());
  const auto status = parse_object(status_json);
  if (status && get<std::string>(*status, "leader").empty())
    return untaken + fmt::format(
                         "it has no leader, and only a leader can take it. This region waits for "
                         "{}. If most of the regions that vote are out of reach, mend their links "
                         "and ask again; if they are lost for good, no change can be taken any "
                         "more: docs/life-of-a-run.md, \"Most regions are lost for good\"",
                         get<std::string>(*status, "waiting"));
  const std::string reachable =
      untaken +
      "most of its regions must be reachable (`causeway status`), and a removal must leave enough "
      "votes (`causeway members list`). ";
  const std::string leader = status ? get<std::string>(*status, "leader") : "";
  if (!leader.empty() && leader == get<std::string>(*status, "region"))
    return reachable + "This region leads: its coordinator.log says what it waits for";
  return reachable + "Ask at the leader" + (leader.empty() ? "" : ", which is " + leader) +
         ". Elsewhere one region alone cannot remove a region that votes, change the address of "
         "another one, or add one while another has no vote yet: more than half of the other "
         "regions must ask";
}

}  // namespace causeway::run
