// The newest snapshot of a region, for whoever goes on from it: `causeway export`, `causeway
// import` and `causeway coordinator --fork`. The file ledger/snapshot says which one it is, and
// nobody signs that file. So a snapshot is used only if it is the state that the region's signed
// ledger names.
#pragma once

#include <filesystem>

#include "apps/run/verify/region_ledger.h"
#include "diloco/log/messages.h"

namespace causeway::run {

struct NamedSnapshot {
  RegionLedger ledger;
  diloco::Snapshot snapshot;
  std::filesystem::path file;  // in the region's spool
};

// Of a region's directory. `certificates`: to check the ledger's signatures with. Throws
// std::system_error (diloco::Errc::lineage) saying what is missing there or what does not agree,
// and what signed_states() throws.
NamedSnapshot read_named_snapshot(const std::filesystem::path& region_directory,
                                  const std::filesystem::path& certificates);

// The region's directory with the newest snapshot: of a run's directory, or that of one region.
// Where none has one, the first. Throws what region_directories() throws.
std::filesystem::path region_with_newest_snapshot(const std::filesystem::path& path);

// Certificates to check a region's ledger with: `given` if somebody named them; those beside the
// region; `others`. Empty: there are none in any of these.
std::filesystem::path certificates_for(const std::filesystem::path& region_directory,
                                       const std::filesystem::path& given,
                                       const std::filesystem::path& others);

}  // namespace causeway::run
