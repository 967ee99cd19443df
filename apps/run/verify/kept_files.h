// What `causeway verify` finds in the files that regions keep beside their ledgers: snapshots,
// training states, payloads, models.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/run/verify/named_snapshot.h"
#include "apps/run/verify/region_ledger.h"
#include "apps/run/verify/verify.h"

namespace causeway::run {

// What an audit comes to, line by line, while it goes on.

class Findings {
 public:
  void say(const std::string& line) { result_.lines.push_back(line); }
  // Two things that cannot both be as they are.
  void differ(const std::string& line) {
    result_.same = false;
    say(line);
  }
  // Something that should be there, or be signed, and is not.
  void lack(const std::string& line) {
    result_.complete = false;
    say("MISSING: " + line);
  }
  void cover(const std::string& what, const std::string& how) {
    result_.covered.push_back(what + ": " + how);
  }
  Verification take() { return std::move(result_); }

 private:
  Verification result_;
};

// "1 version", "2 versions"
inline std::string count(std::size_t number, const std::string& what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

// The regions that are audited together, and what their records and signatures agree on.

struct AuditedRegion {
  RegionLedger ledger;
  Records records;  // of a ledger that stays where it is
  States agreed;
  std::optional<SignedStates> own;  // none: signatures are not checked
  std::optional<SnapshotLeaves> snapshot;

  const std::string& name() const { return ledger.name; }
};

struct History {
  std::vector<AuditedRegion> regions;
  const AuditedRegion* longest = nullptr;    // what the others are held against
  std::optional<diloco::Digest> last_state;  // after the last record, as those say that finished

  diloco::Round rounds() const { return longest->agreed.size(); }
  // Null: nobody signed which state of that version is the right one.
  const diloco::Digest* state_of(diloco::Round version) const {
    const auto agreed = longest->agreed.find(version);
    if (agreed != longest->agreed.end()) return &agreed->second;
    return version == rounds() && last_state ? &*last_state : nullptr;
  }
  // By a record that the region has not heard of.
  bool was_taken_back(const AuditedRegion& region, diloco::Round version) const {
    return std::ranges::any_of(longest->records.withdrawals, [&](const auto& one) {
      return one.entry >= region.ledger.entries.size() && version > one.round;
    });
  }
  bool is_over() const { return last_state.has_value(); }
};

// `runs`: those of the paths with regions/ in them, whose own model is looked at too.
void check_kept_files(History& history, const std::vector<std::filesystem::path>& runs,
                      Findings& findings);

}  // namespace causeway::run
