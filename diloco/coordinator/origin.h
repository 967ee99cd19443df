// Where a forked run begins: the newest snapshot of another run that the run confirmed.
#pragma once

#include <filesystem>

#include "diloco/log/membership.h"

namespace causeway::diloco {

// Copies it into `spool` from a region's directory, or from the run's directory that has it under
// regions/ (of several, the newest). That run may be going on. Throws std::system_error
// (Errc::lineage) saying what is missing there.
Origin take_origin(const std::filesystem::path& run, const std::filesystem::path& spool);

}  // namespace causeway::diloco
