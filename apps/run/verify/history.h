// The regions that are audited together, and what their records and signatures agree on.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/verify/region_ledger.h"
#include "apps/run/verify/signed_states.h"
#include "apps/run/verify/snapshot_leaves.h"

namespace causeway::run {

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

}  // namespace causeway::run
