// `causeway export`: a run as one archive (manifest.h), from the directory of one of its regions.
// The run may be going on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/run/transfer/manifest.h"
#include "apps/run/transfer/tar.h"

namespace causeway::run {

struct ExportOptions {
  // Of a region; or of a run, which stands for its region with the newest snapshot.
  std::filesystem::path directory;
  std::filesystem::path config;  // empty: the one that the run's directory or the region keeps
  std::filesystem::path certificates;  // empty: those beside the region, or the configuration's
};

struct Exported {
  Manifest manifest;
  std::vector<std::string> left_out;  // of the configuration
};

// Only what an import takes: the snapshot is the one that the signed ledger names. Throws
// ConfigError if something is to be named, std::system_error (diloco::Errc::lineage) naming what is
// damaged, and what `sink` throws.
Exported export_run(const ExportOptions& options, const TarWriter::Sink& sink);

}  // namespace causeway::run
