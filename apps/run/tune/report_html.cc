// A tuning as one page that needs nothing outside of it.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/run/page/chart.h"
#include "apps/run/page/format.h"
#include "apps/run/page/html.h"
#include "apps/run/tune/tune.h"

namespace causeway::run {
namespace {

namespace tuner = diloco::tuner;

// dLoss / dln K at equal tokens, of published runs of 1B parameters (arXiv 2501.18512, Table 5).
constexpr double kPublishedSlope = 0.017;

// What is hidden is chosen for each K, so tau may differ along one line.
std::string line_name(const tuner::Row& row, const std::string& name) {
  return name + (row.topology ? ", " + topology_name(row.topology) : "") +
         describe_exchange(row.exchange);
}

// One series per group of rows that differ in K alone, of those that `keep`.
template <typename Keep, typename Y>
std::vector<Series> series_of(const Tuning& tuning, Keep keep, Y y, bool with_codec) {
  std::vector<Series> out;
  for (const tuner::Row& row : tuning.forecast.rows) {
    if (!row.complete || !keep(row)) continue;
    const std::string name =
        line_name(row, with_codec ? row.codec : std::string(tuner::to_string(row.overlap.variant)));
    auto found = std::ranges::find(out, name, &Series::name);
    if (found == out.end()) found = out.insert(out.end(), Series{name, {}});
    found->points.emplace_back(double(row.k), y(row));
  }
  return out;
}

bool same_codec(const tuner::Row& row, const tuner::Row& best) {
  return row.codec == best.codec;
}

std::string utilisation_chart(const Tuning& tuning, const tuner::Row& best) {
  return html_chart({.title = "Utilisation",
                     .x_label = "K",
                     .y_label = "% of the time in inner steps, " + best.codec,
                     .series = series_of(
                         tuning, [&](const auto& row) { return same_codec(row, best); },
                         [](const auto& row) { return 100 * row.utilisation; }, false),
                     .from_zero = true,
                     .log_x = true});
}

std::string round_chart(const Tuning& tuning) {
  const auto keep = [&](const tuner::Row& row) {
    return row.overlap.variant == tuner::Variant::synchronous;
  };
  std::vector<Series> series = series_of(
      tuning, keep, [](const auto& row) { return row.round_s / row.k; }, true);
  for (Series& one : series) one.name += ", predicted";
  Series measured{.name = "measured", .points = {}, .dots = true};
  for (const tuner::Row& row : tuning.forecast.rows) {
    if (row.measured_round_s && keep(row))
      measured.points.emplace_back(double(row.k), *row.measured_round_s / row.k);
  }
  std::ranges::sort(measured.points);
  const bool none = measured.points.empty();
  if (!none) series.push_back(std::move(measured));
  return html_chart({.title = "Round time",
                     .x_label = "K",
                     .y_label = "seconds per inner step, synchronous",
                     .series = std::move(series),
                     .from_zero = true,
                     .log_x = true}) +
         (none ? "<p>None was measured: run with <code>--measure SECONDS</code>.</p>\n" : "");
}

std::string time_chart(const Tuning& tuning, const tuner::Row& best) {
  return html_chart(
      {.title = "Time to the target loss",
       .x_label = "K; shaded: values that hardly differ",
       .y_label = "hours, " + best.codec,
       .series = series_of(
           tuning, [&](const auto& row) { return same_codec(row, best); },
           [](const auto& row) { return row.time_to_loss_s / 3600; }, false),
       .from_zero = true,
       .log_x = true,
       .band = std::pair(double(tuning.recommendation->low), double(tuning.recommendation->high))});
}

std::string bytes_chart(const Tuning& tuning) {
  const bool calibrated = tuning.calibration.fit.b > 0;
  const double slope = calibrated ? tuning.calibration.fit.a : kPublishedSlope;
  std::vector<Series> series;
  for (const tuner::Row& row : tuning.forecast.rows) {
    if (!row.complete || row.overlap.variant != tuner::Variant::synchronous) continue;
    const std::string name =
        line_name(row, (row.price ? row.inner + ", " : std::string()) + row.codec);
    auto found = std::ranges::find(series, name, &Series::name);
    if (found == series.end()) found = series.insert(series.end(), Series{name, {}});
    const double rounds = double(tuning.steps) / row.k;
    double more = slope * std::max(0.0, std::log(row.k / tuning.price.k_reference));
    if (row.price)
      more = tuning.calibration.fit.b * std::log(tuner::steps_factor(row.k, *row.price));
    found->points.emplace_back(row.sent_bytes * rounds / 1e9, more);
  }
  for (Series& one : series) std::ranges::sort(one.points);
  return html_chart({.title = "Loss against bytes",
                     .x_label = "GB over the WAN in the whole run",
                     .y_label = "nats above K = " + format_fixed(tuning.price.k_reference, 0) +
                                " as configured" + " at equal tokens, " +
                                (calibrated ? "as calibrated" : "as published, not measured here"),
                     .series = std::move(series),
                     .from_zero = true,
                     .log_x = true});
}

std::string cost(const Tuning& tuning, double value) {
  return tuning.prices.given ? format_fixed(value, 2) : "no prices given";
}

HtmlRow cells(const Tuning& tuning, const tuner::Row& row) {
  return {fmt::format("{}{}", row.k, &row == &tuning.recommended() ? " (recommended)" : ""),
          row.complete ? format_fixed(row.round_s, 3) : "does not complete",
          row.measured_round_s ? format_fixed(*row.measured_round_s, 3) : "-",
          format_fixed(100 * row.utilisation, 1),
          format_bytes(row.sent_bytes),
          format_duration(row.time_to_loss_s),
          cost(tuning, row.cost_to_loss)};
}

std::string rows_tables(const Tuning& tuning) {
  std::string out;
  const auto& rows = tuning.forecast.rows;
  for (auto at = rows.begin(); at != rows.end();) {
    const std::string title = describe(*at);
    std::vector<HtmlRow> group;
    for (; at != rows.end() && describe(*at) == title; ++at) group.push_back(cells(tuning, *at));
    out += "<h3>" + escape_html(title) + "</h3>\n" +
           html_table({"K", "round, s", "measured, s", "utilisation, %", "bytes per round",
                       "time to loss", "cost of traffic"},
                      group);
  }
  return out;
}

std::string list(const std::vector<std::string>& lines, const std::string& attributes) {
  std::string out;
  for (const std::string& line : lines)
    out += "<li" + attributes + ">" + escape_html(line) + "</li>\n";
  return out.empty() ? out : "<ul>\n" + out + "</ul>\n";
}

std::string summary(const Tuning& tuning) {
  const tuner::Row& best = tuning.recommended();
  const auto line = [&](const std::string& name, const std::optional<std::size_t>& index) {
    const tuner::Row* row = index ? &tuning.forecast.rows[*index] : nullptr;
    return HtmlRow{name, row ? format_duration(row->time_to_loss_s) : "-",
                   row ? cost(tuning, row->cost_to_loss) : "-"};
  };
  return fmt::format(
      "<p><b>K = {}</b>, between {} and {} it hardly matters; {}. Confidence: {}.</p>\n{}", best.k,
      tuning.recommendation->low, tuning.recommendation->high, escape_html(describe(best)),
      tuning.confidence,
      html_table({"", "time to the target loss", "cost of traffic"},
                 {line("recommended", tuning.recommendation->row),
                  line("half of K", tuning.recommendation->half),
                  line("twice K", tuning.recommendation->twice),
                  {"synchronising every step", format_duration(tuning.synchronous_time_s()),
                   cost(tuning, tuning.synchronous_cost())}}));
}

}  // namespace

std::string tuning_html(const Tuning& tuning) {
  const std::string title = escape_html(tuning.name) + ": the choice of K";
  std::string out = fmt::format(
      "{}<title>{}</title></head><body>\n<h1>{}</h1>\n<p>{} parameters, {} regions, links {}; an "
      "inner step takes {} ms.</p>\n",
      kHtmlHead, title, title, format_count(tuning.probe.parameters), tuning.regions.size(),
      escape_html(tuning.links), format_fixed(1e3 * tuning.probe.step_s, 2));
  out += list(tuning.warnings, " class=\"bad\"");
  if (tuning.recommendation) {
    const tuner::Row& best = tuning.recommended();
    out += summary(tuning) + time_chart(tuning, best) + utilisation_chart(tuning, best) +
           round_chart(tuning) + bytes_chart(tuning) + rows_tables(tuning);
  }
  return out + "<h2>What this rests on</h2>\n" + list(tuning.reasons, "") + "</body></html>\n";
}

}  // namespace causeway::run
