// What `causeway verify` finds in the models of regions and runs: their weights are the anchor of a
// snapshot that has the agreed state.
#pragma once

#include <filesystem>
#include <map>
#include <vector>

#include "apps/run/verify/kept_files.h"

namespace causeway::run {

// The leaves of anchors of agreed states, by version. They live in the regions' snapshots.
using VerifiedAnchors = std::map<diloco::Round, const std::vector<diloco::Digest>*>;

// Where a region's worker leaves its model.
std::filesystem::path final_of(const AuditedRegion& region);

// `runs` as check_kept_files() takes them.
void check_kept_models(const History& history, const VerifiedAnchors& anchors,
                       const std::vector<std::filesystem::path>& runs, Findings& findings);

}  // namespace causeway::run
