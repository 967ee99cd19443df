#include "apps/run/watch/round_line.h"

#include <algorithm>

#include <fmt/format.h>

#include "apps/run/page/format.h"
#include "apps/run/region/parse_object.h"

namespace causeway::run {
namespace {

std::string of_all(std::uint64_t number, std::uint64_t all) {
  return format_count(number) + (all > 0 ? " of " + format_count(std::max(all, number)) : "");
}

}  // namespace

std::optional<LoggedRound> parse_round(const std::string& line) {
  const auto json = parse_object(line);
  if (!json || !json->contains("participants")) return std::nullopt;
  LoggedRound round;
  round.round = get<std::uint64_t>(*json, "round");
  round.region = get<std::string>(*json, "region");
  round.step = get<std::uint64_t>(*json, "step");
  // Lines of earlier versions lack it.
  const bool says = json->contains("steps_so_far");
  round.steps_so_far = says ? get<std::uint64_t>(*json, "steps_so_far") : round.step;
  round.tokens = get<std::uint64_t>(*json, "tokens");
  round.wan_tx_bytes = get<std::uint64_t>(*json, "wan_tx_bytes");
  round.participants = (*json)["participants"].size();
  round.listed = get<bool>(*json, "listed");
  if (const auto late = json->find("late"); late != json->end() && late->is_array())
    round.late = late->size();
  round.loss = number_in(*json, "loss");
  round.val_loss = number_in(*json, "val_loss");
  round.tokens_per_s = get<double>(*json, "tokens_per_s");
  round.wait_s = get<double>(*json, "wait_s");
  round.time_unix_s = get<double>(*json, "time_unix_s");
  round.left_s = number_in(*json, "left_s");
  round.waited_for = get<std::string>(*json, "waited_for");
  round.state = get<std::string>(*json, "state");
  return round;
}

Sample sample_of(const LoggedRound& round) {
  return {.time_s = round.time_unix_s,
          .region = round.region,
          .step = round.step,
          .version = round.round + 1,
          .wan_tx_bytes = round.wan_tx_bytes,
          .loss = round.loss,
          .tokens_per_s = round.tokens_per_s,
          .val_loss = round.val_loss};
}

// K may have been another one earlier in the run. Rounds without steps are the last ones.
std::uint64_t RoundLines::rounds(const LoggedRound& round) {
  const bool has_steps = !before_ || round.steps_so_far != before_->steps_so_far;
  if (pace_ && has_steps) rounds_ = round.round + 1 + pace_->rounds_after(round.steps_so_far);
  return rounds_;
}

std::string RoundLines::next(const LoggedRound& round, Clock::time_point now) {
  std::string line = "round " + of_all(round.round + 1, rounds(round)) + ": step " +
                     format_steps(round.step, steps_, " of ");
  if (round.loss) line += ", loss " + format_fixed(*round.loss, 4);
  if (round.val_loss) line += ", validation loss " + format_fixed(*round.val_loss, 4);
  line +=
      fmt::format(", {} tokens/s, {} regions",
                  format_count(static_cast<std::uint64_t>(round.tokens_per_s)), round.participants);
  if (before_) {
    const LoggedRound& before = *before_;
    const double waited_s = std::max(0.0, round.wait_s - before.wait_s);
    line += ", took " + format_duration(std::chrono::duration<double>(now - before_at_).count()) +
            ", " + format_duration(waited_s) + " of it without steps";
    if (!round.waited_for.empty()) line += " (waited most for " + round.waited_for + ")";
    if (round.wan_tx_bytes >= before.wan_tx_bytes)
      line += ", sent " + format_bytes(double(round.wan_tx_bytes - before.wan_tx_bytes));
  }
  if (round.left_s) line += ", about " + format_duration(*round.left_s) + " left";
  before_ = round;
  before_at_ = now;
  return line;
}

}  // namespace causeway::run
