// Rounds as a region's events.jsonl has them, and as a line that people read.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/run/region/region_files.h"
#include "diloco/pacing/pace.h"

namespace causeway::run {

// An applied round. Totals are over the whole run (docs/outputs.md).
struct LoggedRound {
  std::uint64_t round = 0, step = 0, tokens = 0, wan_tx_bytes = 0;
  std::uint64_t steps_so_far = 0;  // of the run, with those of this round; `step` may be ahead
  std::string region;
  std::size_t participants = 0;
  bool listed = false;              // whether the region's own contribution to it is
  std::uint64_t late = 0;           // contributions of earlier rounds that it lists
  std::optional<double> loss = {};  // nats per token, of the last inner step
  std::optional<double> val_loss;
  double tokens_per_s = 0;
  double wait_s = 0;                  // in all but inner steps
  double time_unix_s = 0;             // when it was applied
  std::string waited_for;             // the member that was waited for longest; empty: none
  std::string state = {};             // hex digest of anchor and outer momentum after it
  std::optional<double> left_s = {};  // that the run still takes
};

// Nothing if the line is none of a round.
std::optional<LoggedRound> parse_round(const std::string& line);
// As `causeway simulate` would have observed it then; time_s counts from 1970.
Sample sample_of(const LoggedRound& round);

// Turns rounds into lines, with what each took. A change of the host's date does not move that.
class RoundLines {
 public:
  using Clock = std::chrono::steady_clock;

  // `steps` of the run; `pace`: nothing if nobody knows how many rounds these will be.
  RoundLines(std::uint64_t steps, std::optional<diloco::Pace> pace) : steps_(steps), pace_(pace) {}

  // "round 12 of 60: step 240 of 1,200, loss 2.5123, ... took 12.3 s, about 9 min 50 s left"
  std::string next(const LoggedRound& round, Clock::time_point now = Clock::now());

 private:
  std::uint64_t rounds(const LoggedRound& round);

  std::uint64_t steps_;
  std::optional<diloco::Pace> pace_;
  std::uint64_t rounds_ = 0;  // of the run, as the last round with steps shows; 0: not known
  std::optional<LoggedRound> before_;
  Clock::time_point before_at_;
};

}  // namespace causeway::run
