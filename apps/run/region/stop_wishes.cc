#include "apps/run/region/stop_wishes.h"

#include <csignal>
#include <utility>

namespace causeway::run {

std::optional<StopWishes::Wish> StopWishes::heed(int signal, Time now) {
  const bool first = !std::exchange(asked_, true);
  const bool repeats = signal == SIGTERM && terminated_ && now < *terminated_ + kRepeats;
  if (signal == SIGTERM && !repeats) terminated_ = now;
  const bool again = signal != SIGHUP && !repeats && std::exchange(asked_by_name_, true);
  if (again) return Wish::end_at_once;
  return first ? std::optional(Wish::clean_end) : std::nullopt;
}

}  // namespace causeway::run
