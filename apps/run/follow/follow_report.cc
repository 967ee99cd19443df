#include "apps/run/follow/follow_report.h"

#include <string>
#include <vector>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace causeway::run {
namespace {

using prometheus::MetricType;

prometheus::MetricFamily family(const std::string& name, const std::string& help, MetricType type,
                                double value) {
  prometheus::MetricFamily family{
      .name = "causeway_follower_" + name, .help = help, .type = type, .metric = {}};
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  return family;
}

double published_version(const FollowFigures& figures) {
  return figures.published.is_null() ? 0 : figures.published.value("version", 0.0);
}

std::string metrics_text(const FollowFigures& figures) {
  const auto gauge = MetricType::Gauge;
  const std::vector<prometheus::MetricFamily> families{
      family("rounds", "Rounds that the run has decided on, as far as is known", gauge,
             double(figures.rounds)),
      family("version", "Rounds in the state that is computed", gauge, double(figures.version)),
      family("published_version", "Rounds in the model that is published", gauge,
             published_version(figures)),
      family("connected", "1 while a region answers", gauge, figures.connected.empty() ? 0 : 1),
      family("over", "1 once the run is over and its last version is published", gauge,
             figures.over ? 1 : 0),
      family("received_bytes_total", "Bytes received from regions", MetricType::Counter,
             double(figures.received_bytes))};
  return prometheus::TextSerializer().Serialize(families);
}

std::string version_text_of(const FollowFigures& figures, const std::string& seen) {
  if (figures.published.is_null()) return "";
  if (std::to_string(figures.published.value("version", std::uint64_t{0})) == seen) return "";
  return figures.published.dump(2) + "\n";
}

}  // namespace

MetricsPages follow_pages(const FollowReport& report) {
  return {.metrics = [&report](const std::string&) { return metrics_text(report.look()); },
          .not_healthy = [] { return std::string(); },
          .not_ready =
              [&report] {
                const FollowFigures figures = report.look();
                if (!figures.published.is_null()) return figures.trouble;
                return "no version is published yet" +
                       (figures.trouble.empty() ? "" : ": " + figures.trouble);
              },
          .version =
              [&report](const std::string& seen) { return version_text_of(report.look(), seen); }};
}

}  // namespace causeway::run
