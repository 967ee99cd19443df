#include "apps/run/report/k_change.h"

#include <set>

#include "apps/run/page/format.h"
#include "apps/run/page/html.h"
#include "apps/run/region/parse_object.h"

namespace causeway::run {
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
