#include "apps/run/report/report_charts.h"

#include <algorithm>
#include <map>

#include "apps/run/page/html.h"

namespace causeway::run {
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
  const auto validation = [](const Sample& s) { return s.val_loss.value_or(0); };
  const auto bytes = [](const Sample& s) { return double(s.wan_tx_bytes); };
  return chart_of({"Training loss", "inner step", unit_of_loss,
                   series_of(by_region, step, loss, true), false}) +
         chart_of({"Validation loss", "inner step", unit_of_loss,
                   series_of(by_region, step, validation, false), false}) +
         chart_of({"Sent over the WAN", "seconds", "bytes",
                   series_of(by_region, time, bytes, false), true}) +
         chart_of({"Round time", "round", "seconds", {round_times(samples)}, true});
}

}  // namespace causeway::run
