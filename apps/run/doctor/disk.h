// Whether a region's directory is on a disk that has the room, and takes what is written in time.
#pragma once

#include <cstdint>
#include <filesystem>

#include "apps/run/config/config.h"
#include "apps/run/doctor/finding.h"

namespace causeway::run {

struct DiskFigures {
  std::uint64_t free_bytes = 0;
  std::uint64_t free_files = ~std::uint64_t{0};  // that may still be made
  double sync_median_s = 0, sync_worst_s = 0;    // until 64 kB are on disk
};
// Creates the directory. Throws std::system_error if it cannot be written to.
DiskFigures look_at_disk(const std::filesystem::path& directory);

Findings judge_disk(const DiskFigures& disk, const Config& config,
                    const std::filesystem::path& directory);

}  // namespace causeway::run
