// Rounds of a run as curves need them: some that are evenly spread, however many there are. A run
// of months has more than fit into memory, and than a screen can show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "apps/run/watch/round_line.h"

namespace causeway::run {

class ThinnedRounds {
 public:
  static constexpr std::size_t kKeptMax = 16'384;

  // In order; one that was added before is left out.
  void add(LoggedRound round);
  // The first and the last are among them. The validation of one that is left out stands at the
  // next.
  std::vector<LoggedRound> take();

 private:
  void halve();

  std::vector<LoggedRound> kept_;  // every stride_-th, and the newest
  std::uint64_t stride_ = 1, added_ = 0;
};

}  // namespace causeway::run
