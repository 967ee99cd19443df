#include "apps/run/report/run_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "apps/run/page/format.h"
#include "apps/run/page/html.h"
#include "apps/run/report/region_history.h"

namespace causeway::run {
namespace {

using Regions = std::vector<RegionHistory>;

std::uint64_t steps_of(const RegionHistory& region) {
  if (region.result) return region.result->progress.step();
  return region.status ? region.status->progress.step() : 0;
}

// As long as its worker is not done, that of the newest validation.
std::optional<double> validation_of(const RegionHistory& region) {
  if (region.result) return region.result->val_loss();
  if (!region.status || !region.status->progress.has_val_loss()) return std::nullopt;
  return region.status->progress.val_loss();
}

bool any_timed(const Regions& regions) {
  return std::ranges::any_of(regions, [](const RegionHistory& region) {
    return region.result && region.result->timed_steps;
  });
}

std::string loss_text(const std::optional<double>& loss, bool timed) {
  if (timed) return "not trained";
  return loss ? format_fixed(*loss, 4) : "";
}

std::string summary(const Regions& regions) {
  std::uint64_t rounds = 0, k = 0, steps = 0;
  std::size_t finished = 0;
  double first_s = std::numeric_limits<double>::infinity(), last_s = 0;
  for (const RegionHistory& region : regions) {
    if (region.status && region.status->version >= rounds) {
      rounds = region.status->version;
      k = region.status->k;
    }
    steps = std::max(steps, region.steps);
    finished += region.finished ? 1 : 0;
    if (region.rounds.empty()) continue;
    first_s = std::min(first_s, region.rounds.front().time_unix_s);
    last_s = std::max(last_s, region.rounds.back().time_unix_s);
  }
  const std::string state =
      finished == regions.size() ? "The run is over"
      : finished > 0 ? "The run is over in " + format_count(finished) + " of these regions"
                     : "The run is not over";
  return "<p>" + state + ": " + format_count(rounds) + " rounds applied, " + format_count(steps) +
         " steps to take in all, K = " + format_count(k) + " at last" +
         (last_s > first_s
              ? "; " + format_duration(last_s - first_s) + " from the first round to the last"
              : "") +
         ".</p>\n";
}

// Of those that are done, the parameters; of all, the state after each round that several applied.
std::string sameness(const Regions& regions) {
  if (regions.size() < 2)
    return "<p>This page shows one region only. <code>causeway report</code> with the directories "
           "of all regions compares them, and <code>causeway verify</code> compares what they "
           "signed.</p>\n";
  std::map<std::uint64_t, std::size_t> agreed;
  std::string digest;
  for (const RegionHistory& region : regions) {
    const auto differs = [&](const std::string& what) {
      return "<p class=\"bad\">The regions differ: " + escape_html(region.name) + " " + what +
             ".</p>\n";
    };
    for (const auto& [round, state] : region.states) {
      if (agreed.emplace(round, state).first->second != state)
        return differs("has another state after round " + format_count(round));
    }
    if (!region.result) continue;
    if (digest.empty()) digest = region.result->params_digest;
    if (region.result->params_digest != digest) return differs("ended with other parameters");
  }
  return "<p class=\"good\">These regions hold the same bits after every round that they have in "
         "common" +
         std::string(digest.empty() ? "" : " and at the end") + ".</p>\n";
}

std::string egress(const Regions& regions) {
  std::vector<RegionStatus> statuses;
  for (const RegionHistory& region : regions) {
    if (region.status) statuses.push_back(*region.status);
  }
  const auto run = run_egress(statuses);
  if (!run) return "";
  const bool over = std::ranges::all_of(regions, &RegionHistory::finished);
  std::string text = over ? format_money(run->cost) : to_string(*run);
  for (const EgressLimit& limit : over ? run->limits : std::vector<EgressLimit>{})
    text += "; " + format_money(limit.spent) + " of " + format_money(limit.limit) +
            (limit.period == "run" ? " of the run's budget" : " of the budget a " + limit.period);
  return "<p>Egress cost of these regions: " + escape_html(text) + ".</p>\n";
}

// What a coordinator said last holds while it runs. The directory may be a copy from another host.
std::string shown_state(const RegionHistory& region, const RegionStatus& status) {
  if (region.finished) return "finished";
  return region.runs ? status.state() : "not running here";
}

std::string table(const Regions& regions) {
  const bool timed = any_timed(regions);
  std::vector<HtmlRow> rows;
  for (const RegionHistory& region : regions) {
    const RegionStatus status = region.status.value_or(RegionStatus{});
    const intra::WorkerResult result = region.result.value_or(intra::WorkerResult{});
    rows.push_back({region.name, format_count(region.states.size()), format_count(steps_of(region)),
                    timed ? "" : format_loss(loss_of(status.progress), ""),
                    loss_text(validation_of(region), timed),
                    format_bytes(double(status.wan_tx_bytes)),
                    format_bytes(double(status.wan_rx_bytes)),
                    region.result ? format_fixed(100 * result.utilisation(), 1) + " %" : "",
                    result.params_digest.substr(0, 12), shown_state(region, status)});
  }
  return html_table({"region", "rounds", "steps", "loss", "validation loss", "sent", "received",
                     "utilisation", "parameters", "state"},
                    rows);
}

std::vector<Sample> samples_of(const Regions& regions) {
  std::vector<Sample> samples;
  for (const RegionHistory& region : regions) {
    for (const LoggedRound& round : region.rounds) samples.push_back(sample_of(round));
  }
  std::ranges::stable_sort(samples, {}, &Sample::time_s);
  const double first_s = samples.empty() ? 0 : samples.front().time_s;
  for (Sample& sample : samples) sample.time_s -= first_s;
  return samples;
}

}  // namespace

std::string run_report(const Regions& regions, const std::string& more) {
  const std::string title = "Run " + escape_html(regions.front().run_id);
  std::vector<Event> events;  // what one region missed another may have seen
  for (const RegionHistory& region : regions)
    events.insert(events.end(), region.events.begin(), region.events.end());
  std::ranges::stable_sort(events, {}, &Event::round);
  std::string out = kHtmlHead;
  out += "<title>" + title + "</title></head><body>\n<h1>" + title + "</h1>\n";
  out += summary(regions) + sameness(regions);
  if (any_timed(regions))
    out += "<p class=\"bad\">Steps were timed waits: nothing was trained.</p>\n";
  out += egress(regions) + table(regions) + more + k_changes_html(k_changes(events)) +
         report_charts(samples_of(regions), "nats per token");
  return out + "</body></html>\n";
}

namespace {

constexpr const char* kBaseline = "baseline";

using SamplesByRegion = std::map<std::string, std::vector<Sample>>;

template <typename X, typename Y>
std::vector<Series> series_of(const SamplesByRegion& samples, X x, Y y, bool with_baseline) {
  std::vector<Series> out;
  std::size_t style = 1;  // 0 is the baseline's, which not all charts have
  for (const auto& [region, list] : samples) {
    if (region == kBaseline && !with_baseline) continue;
    Series series{region, {}};
    series.style = region == kBaseline ? 0 : style++;
    for (const Sample& sample : list) {
      if (const std::optional<double> value = y(sample); value && std::isfinite(*value))
        series.points.emplace_back(x(sample), *value);
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

std::string chart_of(Chart chart) {
  std::erase_if(chart.series, [](const Series& series) { return series.points.size() < 2; });
  return chart.series.empty() ? "" : html_chart(chart);
}

}  // namespace

std::string report_charts(const std::vector<Sample>& samples, const std::string& unit_of_loss) {
  SamplesByRegion by_region;
  for (const Sample& sample : samples) by_region[sample.region].push_back(sample);
  const auto step = [](const Sample& s) { return double(s.step); };
  const auto time = [](const Sample& s) { return s.time_s; };
  const auto loss = [](const Sample& s) { return s.loss; };
  const auto validation = [](const Sample& s) { return s.val_loss; };
  const auto bytes = [](const Sample& s) {
    return s.wan_tx_bytes > 0 ? std::optional(double(s.wan_tx_bytes)) : std::nullopt;
  };
  return chart_of({"Training loss", "inner step", unit_of_loss,
                   series_of(by_region, step, loss, true), false}) +
         chart_of({"Validation loss", "inner step", unit_of_loss,
                   series_of(by_region, step, validation, false), false}) +
         chart_of({"Sent over the WAN", "seconds", "bytes",
                   series_of(by_region, time, bytes, false), true}) +
         chart_of({"Round time", "round", "seconds", {round_times(samples)}, true});
}

}  // namespace causeway::run
