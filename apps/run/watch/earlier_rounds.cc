#include "apps/run/watch/earlier_rounds.h"

#include <algorithm>
#include <string>
#include <system_error>

namespace causeway::run {

EarlierRounds::EarlierRounds(const std::filesystem::path& region_directory) {
  const std::filesystem::path file = region_directory / "events.jsonl";
  std::error_code missing;
  const std::uintmax_t bytes = std::filesystem::file_size(file, missing);
  if (missing) return;
  lines_.open(file);
  left_bytes_ = bytes;
}

std::optional<LoggedRound> EarlierRounds::next() {
  for (std::string line; left_bytes_ > 0 && std::getline(lines_, line);) {
    left_bytes_ -= std::min<std::uintmax_t>(left_bytes_, line.size() + 1);
    if (auto round = parse_round(line)) return round;
  }
  return std::nullopt;
}

}  // namespace causeway::run
