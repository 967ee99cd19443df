#include <algorithm>
#include <map>

#include "apps/run/chart.h"
#include "apps/run/format.h"
#include "apps/run/report.h"

namespace causeway::run {
namespace {

constexpr const char* kBaseline = "baseline";

constexpr const char* kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 760px; margin: 2em auto; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0; width: 100%; }
th, td { padding: .25em .6em; border-bottom: 1px solid #ddd; text-align: right; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; margin: 1em 0; } svg text { font-size: 11px; } svg .grid { stroke: #e4e4e4; }
pre { background: #f6f6f6; padding: .8em; white-space: pre-wrap; overflow-wrap: anywhere; }
.good { color: #2a6b32; } .bad { color: #b3261e; font-weight: bold; }
</style>
)";

using Row = std::vector<std::string>;

std::string table(const Row& header, const std::vector<Row>& rows) {
  const auto line = [](const Row& cells, const std::string& tag) {
    std::string out = "<tr>";
    for (const std::string& text : cells)
      out += "<" + tag + ">" + escape_html(text) + "</" + tag + ">";
    return out + "</tr>\n";
  };
  std::string out = "<table>\n" + line(header, "th");
  for (const Row& row : rows) out += line(row, "td");
  return out + "</table>\n";
}

std::string comparison(const Summary& s) {
  const bool compared = s.baseline_val_loss.has_value();
  return table(
      {"", "this run", "synchronised every step"},
      {{"validation loss, nats per token",
        s.timed_steps ? "not trained" : format_fixed(s.val_loss, 4),
        compared ? format_fixed(*s.baseline_val_loss, 4) : "skipped"},
       {"bytes over the WAN", format_bytes(double(s.wan_bytes)),
        format_bytes(double(s.wan_bytes_if_synced_every_step))},
       {"wall time", format_duration(s.facts.wall_s),
        s.facts.baseline_wall_s > 0 ? format_duration(s.facts.baseline_wall_s) : "skipped"}});
}

std::string regions(const Summary& s) {
  std::vector<Row> rows;
  for (const RegionSummary& region : s.regions) {
    rows.push_back({region.name, format_count(region.steps), format_count(region.tokens),
                    format_fixed(region.val_loss, 4), format_bytes(double(region.wan_tx_bytes)),
                    format_bytes(double(region.wan_rx_bytes)),
                    format_fixed(100 * region.utilisation, 1) + " %",
                    region.params_digest.substr(0, 12)});
  }
  return table({"region", "steps", "tokens", "validation loss", "sent", "received", "utilisation",
                "parameters"},
               rows);
}

using SamplesByRegion = std::map<std::string, std::vector<Sample>>;

template <typename X, typename Y>
std::vector<Series> series_of(const SamplesByRegion& samples, X x, Y y, bool with_baseline) {
  std::vector<Series> out;
  for (const auto& [region, list] : samples) {
    if (region == kBaseline && !with_baseline) continue;
    Series series{region, {}};
    for (const Sample& sample : list) {
      if (y(sample) > 0) series.points.emplace_back(x(sample), y(sample));
    }
    out.push_back(std::move(series));
  }
  return out;
}

// When each round was first seen committed anywhere; rounds that passed between two observations
// share the time evenly.
Series round_times(const std::vector<Sample>& samples) {
  Series out{"round", {}};
  std::uint64_t version = 0;
  double last_s = 0;
  for (const Sample& sample : samples) {
    if (sample.region == kBaseline || sample.version <= version) continue;
    const double each_s = (sample.time_s - last_s) / double(sample.version - version);
    for (std::uint64_t v = version + 1; v <= sample.version; ++v)
      out.points.emplace_back(double(v), each_s);
    version = sample.version;
    last_s = sample.time_s;
  }
  return out;
}

std::string charts(const std::vector<Sample>& samples) {
  SamplesByRegion by_region;
  for (const Sample& sample : samples) by_region[sample.region].push_back(sample);
  const auto step = [](const Sample& s) { return double(s.step); };
  const auto time = [](const Sample& s) { return s.time_s; };
  const auto loss = [](const Sample& s) { return s.loss; };
  const auto bytes = [](const Sample& s) { return double(s.wan_tx_bytes); };
  return svg({"Training loss", "inner step", "nats per token",
              series_of(by_region, step, loss, true), false}) +
         svg({"Sent over the WAN", "seconds", "bytes", series_of(by_region, time, bytes, false),
              true}) +
         svg({"Round time", "round", "seconds", {round_times(samples)}, true});
}

}  // namespace

std::string report_html(const Summary& s, const std::vector<Sample>& samples,
                        const std::string& sample) {
  const std::string title = escape_html(s.name);
  std::string out = kHead;
  out += "<title>" + title + "</title></head><body>\n<h1>" + title + "</h1>\n<p>" +
         format_count(s.parameters) + " parameters, " + std::to_string(s.regions.size()) +
         " regions, " + std::to_string(s.rounds) + " rounds of K = " + std::to_string(s.k) +
         " steps; codec " + escape_html(s.codec) + ", outer " + s.outer + "; WAN " +
         escape_html(s.facts.wan) + "; seed " + std::to_string(s.seed) + "; restarts " +
         std::to_string(s.facts.restarts) + ".</p>\n";
  out += s.identical ? "<p class=\"good\">All regions hold the same bits, after every round and at "
                       "the end.</p>\n"
                     : "<p class=\"bad\">The regions differ.</p>\n";
  if (s.timed_steps) out += "<p class=\"bad\">Steps were timed waits: nothing was trained.</p>\n";
  out += comparison(s) + regions(s);
  if (!s.timed_steps) {
    out +=
        "<p>All regions shared " + std::to_string(s.facts.cores) +
        " cores, and one that waits lends them to the others: utilisation is not that of separate "
        "machines.</p>\n";
  }
  out += charts(samples);
  if (!sample.empty())
    out += "<h2>Text from the trained model</h2>\n<pre>" + escape_html(sample) + "</pre>\n";
  return out + "</body></html>\n";
}

}  // namespace causeway::run
