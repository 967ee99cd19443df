#include "apps/run/simulate/restart_policy.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace causeway::run {

std::optional<std::chrono::milliseconds> RestartPolicy::on_death(std::uint64_t progress) {
  constexpr std::uint32_t kDeathsMax = 10;
  if (progress > last_progress_) deaths_ = 0;
  last_progress_ = std::max(progress, last_progress_);
  if (deaths_ == kDeathsMax) return std::nullopt;
  return std::min<std::chrono::milliseconds>(first_pause_ * (1U << deaths_++),
                                             std::chrono::seconds(30));
}

Ending ending_of_ours(const ExitStatus& status) {
  if (status.ok()) return {};
  const bool final = status.signal == 0 && status.code >= 2 && status.code <= 4;
  return {final ? Ending::Kind::final : Ending::Kind::crashed, status.code};
}

Ending FirstStarts::judge(const ExitStatus& status, bool has_worked) {
  const Ending ending = ending_of_ours(status);
  const bool by_itself = status.signal == 0 && status.code == 1;
  deaths_ = by_itself && !has_worked ? deaths_ + 1 : 0;
  if (deaths_ < kDeathsMax) return ending;
  return {Ending::Kind::final, status.code,
          fmt::format(", {} times in a row before its region did anything", deaths_)};
}

std::optional<std::string> EarlyEnds::on_end(const ExitStatus& status, std::uint64_t version) {
  if (!status.ok()) ends_ = 0;
  if (std::exchange(version_, version) != version) ends_ = 0;
  if (!status.ok() || ++ends_ < kEndsMax) return std::nullopt;
  return fmt::format(
      " before the run was over, {} times in a row without a round in between: it must train until "
      "the run says that it is over",
      ends_);
}

}  // namespace causeway::run
