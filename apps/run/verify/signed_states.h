// What a region put its signature under: the entries of its ledger, the states that it contributed
// from, and the one at which it finished. What is not signed, or not by this region, is not told.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "apps/run/verify/region_ledger.h"
#include "diloco/log/record.h"
#include "diloco/maths/digest.h"

namespace causeway::run {

using States = std::map<diloco::Round, diloco::Digest>;  // by version

struct SignedStates {
  std::string problem;  // the first signature that is not the region's; empty: all are
  // What it contributed from, against the state that the records agree on. A wrong one is healed
  // if the right one of that version, or of a higher one, came after it.
  States right, healed, wrong;
  std::optional<diloco::Applied> finished;  // the last version, and its state there
  std::string finish_problem;  // why ledger/finished is not taken for that; empty: there is none
};

// The state that the records agree on for each version, as far as there are records.
States agreed_states(const Records& records);

// `records`: of this ledger or of a longer one. `certificates`: of the run, the region's among
// them. Throws std::system_error naming the file if that cannot be read.
SignedStates signed_states(const RegionLedger& ledger, const Records& records,
                           const std::filesystem::path& certificates);

}  // namespace causeway::run
