// What each region was worth: a window of a run's rounds, computed again without each in turn.
//
//   state before the window ──► round by round, as decided ──► loss
//     for each region: the same rounds without it          ──► loss: its worth in the window
//     in each round, for each region that it lists:
//       the state as decided, one round without it         ──► loss: its worth in that round alone
//
// All payloads are those of the real run: an estimate of first order.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/replay/credit_table.h"
#include "diloco/maths/train.h"

namespace causeway::run {

struct RoundWindow {
  diloco::Round first = 0, last = 0;  // both in it
};
// "10-19", or "10" for one round. Throws ConfigError saying what it must be.
RoundWindow parse_rounds(const std::string& text);

// Without --rounds: the newest rounds, at most so many. A round costs one validation more than it
// lists regions.
inline constexpr diloco::Round kCreditedRounds = 20;

struct CreditOptions {
  std::vector<std::filesystem::path> paths;  // as ReplayOptions has them
  std::filesystem::path certificates;
  std::vector<std::string> overrides;  // of the configuration that was kept
  std::optional<RoundWindow> rounds;
};

// Holds 8 bytes a parameter for each region, and 44 more.
// Throws ConfigError for options that do not fit the run, for a window with a sharded round, for a
// model that is not one of ours and for a run of one region; diloco::Errc::lineage if something
// that is needed was not kept, or is not what the run agreed on; and as intra::Dataset does if the
// validation data is not here.
CreditTable credit(const CreditOptions& options);

}  // namespace causeway::run
