// The rounds that a region's events.jsonl has when this is made, one after the other: those of a
// run of months are too many to be in memory at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>

#include "apps/run/watch/round_line.h"

namespace causeway::run {

class EarlierRounds {
 public:
  explicit EarlierRounds(const std::filesystem::path& region_directory);

  // In file order; a round that was applied again after a restart is there again. Nothing: that
  // was all.
  std::optional<LoggedRound> next();

 private:
  std::ifstream lines_;
  std::uintmax_t left_bytes_ = 0;
};

}  // namespace causeway::run
