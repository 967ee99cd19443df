// What `causeway verify` finds in the files that regions keep beside their ledgers: snapshots,
// training states, payloads, models.
#pragma once

#include <filesystem>
#include <vector>

#include "apps/run/verify/findings.h"
#include "apps/run/verify/history.h"

namespace causeway::run {

// `runs`: those of the paths with regions/ in them, whose own model is looked at too.
void check_kept_files(History& history, const std::vector<std::filesystem::path>& runs,
                      Findings& findings);

}  // namespace causeway::run
