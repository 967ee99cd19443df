// `causeway import`: an archive of `causeway export` as a directory that `causeway verify`,
// `causeway ledger` and `causeway coordinator --fork` take. Nothing in the archive is believed
// unchecked.
#pragma once

#include <cstddef>
#include <filesystem>

#include "apps/run/transfer/manifest.h"

namespace causeway::run {

struct Imported {
  Manifest manifest;
  std::size_t entries = 0;  // of the ledger
};

// `archive`: "-" is standard input. `certificates`: to check signatures with; empty: those in the
// archive. The directory is there only when all of it is whole, and its snapshot is the state that
// the signed ledger names. Throws ConfigError if it is there already or the archive cannot be
// opened, diloco::Errc::lineage naming the archive if that is damaged or is not what it says, what
// read_named_snapshot() throws, and what writing does.
Imported import_run(const std::filesystem::path& archive, const std::filesystem::path& directory,
                    const std::filesystem::path& certificates);

}  // namespace causeway::run
