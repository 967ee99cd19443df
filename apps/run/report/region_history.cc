#include "apps/run/report/region_history.h"

#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "apps/run/config/config.h"
#include "apps/run/page/format.h"
#include "apps/run/page/html.h"
#include "apps/run/region/parse_object.h"
#include "apps/run/report/thinned_rounds.h"

namespace causeway::run {

namespace {

// One by one: of a run of months they do not fit into memory.
void read_lines(const std::filesystem::path& file, RegionHistory& history) {
  ThinnedRounds rounds;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (auto round = parse_round(line)) {
      history.states[round->round] = std::hash<std::string>{}(std::exchange(round->state, {}));
      rounds.add(*std::move(round));
    } else if (auto event = parse_event(line)) {
      history.events.push_back(*std::move(event));
    }
  }
  if (lines.bad()) {  // not the end of the file
    throw std::system_error(std::make_error_code(std::errc::io_error),
                            "cannot read " + file.string());
  }
  history.rounds = rounds.take();
}

}  // namespace

RegionHistory read_region_history(const std::filesystem::path& region_directory) {
  const auto status = read_status(region_directory);
  if (!status || status->region.empty())
    throw ConfigError(region_directory.string() +
                      " is not the directory of a region that was started: it has no status.json");
  RegionHistory history{.name = status->region,
                        .run_id = status->run_id,
                        .events = {},
                        .rounds = {},
                        .states = {},
                        .status = status,
                        .finished = status->finished,
                        .runs = has_coordinator(region_directory),
                        .steps = status->steps,
                        .result = intra::read_result(region_directory)};
  read_lines(region_directory / "events.jsonl", history);
  return history;
}

namespace {

constexpr std::size_t kShown = 50;

}  // namespace

std::vector<KChange> k_changes(const std::vector<Event>& events) {
  std::vector<KChange> changes;
  std::set<std::uint64_t> seen;  // a round that was applied again says so again
  for (const Event& event : events) {
    if (!event.event.starts_with("k_")) continue;
    const auto json = parse_object(event.json);
    if (!json) continue;
    const KChange change{.round = event.round,
                         .from = get<std::uint64_t>(*json, "from"),
                         .to = get<std::uint64_t>(*json, "k"),
                         .text = get<std::string>(*json, "text")};
    if (change.from != change.to && seen.insert(change.round).second) changes.push_back(change);
  }
  return changes;
}

std::string k_changes_html(const std::vector<KChange>& changes) {
  if (changes.empty()) return "";
  const std::size_t left_out = changes.size() > kShown ? changes.size() - kShown : 0;
  std::vector<HtmlRow> rows;
  for (std::size_t i = left_out; i < changes.size(); ++i) {
    const KChange& change = changes[i];
    rows.push_back({format_count(change.round),
                    format_count(change.from) + " to " + format_count(change.to), change.text});
  }
  return "<h2>Changes of K</h2>\n" +
         (left_out > 0 ? "<p>The newest " + format_count(kShown) + " of " +
                             format_count(changes.size()) + ".</p>\n"
                       : "") +
         html_text_table({"round", "K", "why"}, rows);
}

}  // namespace causeway::run
