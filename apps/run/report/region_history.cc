#include "apps/run/report/region_history.h"

#include <set>
#include <utility>

#include "apps/run/config/config.h"
#include "apps/run/region/parse_object.h"

namespace causeway::run {

RegionHistory read_region_history(const std::filesystem::path& region_directory) {
  const auto status = parse_object(read_text_file(region_directory / "status.json"));
  if (!status || get<std::string>(*status, "region").empty())
    throw ConfigError(region_directory.string() +
                      " is not the directory of a region that was started: it has no status.json");
  RegionHistory history{.name = get<std::string>(*status, "region"),
                        .run_id = get<std::string>(*status, "run_id"),
                        .events = read_events(region_directory / "events.jsonl"),
                        .rounds = {},
                        .status = read_status(region_directory),
                        .finished = get<bool>(*status, "finished"),
                        .steps = get<std::uint64_t>(*status, "steps"),
                        .result = intra::read_result(region_directory)};
  std::set<std::uint64_t> seen;
  for (LoggedRound& round : applied_rounds(region_directory)) {
    if (seen.insert(round.round).second) history.rounds.push_back(std::move(round));
  }
  return history;
}

}  // namespace causeway::run
