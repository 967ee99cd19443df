// Where a forked run begins: the newest snapshot of another run that the run confirmed. A
// coordinator never looks inside a payload, so whoever starts one has checked that this is the
// state that the other run's signed ledger names.
#pragma once

#include <filesystem>

#include "diloco/log/membership.h"

namespace causeway::diloco {

struct Fork {
  Origin origin;
  std::filesystem::path snapshot;  // in the other run's spool
};

// Into `spool`. Throws std::system_error (Errc::lineage) if the file is gone or is not the origin's
// blob.
void copy_origin(const Fork& fork, const std::filesystem::path& spool);

}  // namespace causeway::diloco
