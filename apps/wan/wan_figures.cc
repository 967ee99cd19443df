#include "apps/wan/wan_figures.h"

#include <functional>
#include <utility>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>
#include <nlohmann/json.hpp>

namespace causeway::apps {
namespace {

using Json = nlohmann::ordered_json;
using prometheus::MetricFamily;
using prometheus::MetricType;
using wan_sim::DirectedStats;
using wan_sim::LinkState;

double in_ms(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

double in_s(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

Json link_json(const wan_sim::Pair& pair, const LinkState& link, const DirectedStats& stats) {
  const wan_sim::LinkProfile& profile = link.profile;
  return {{"from", pair.first},
          {"to", pair.second},
          {"rate_mbit_s", profile.rate_bytes_per_s * 8 / 1e6},
          {"delay_ms", in_ms(profile.delay)},
          {"jitter_ms", in_ms(profile.jitter.scale)},
          {"loss", profile.loss.mean()},
          {"queue_bytes", profile.queue_limit_bytes()},
          {"congestion", wan_sim::kCongestions[static_cast<std::size_t>(profile.congestion)]},
          {"black_hole", link.black_hole},
          {"refused", link.refused},
          {"bytes", stats.bytes},
          {"connections", stats.connections},
          {"buffered_bytes", stats.buffered_bytes},
          {"missed_bytes", stats.missed_bytes},
          {"lateness_p99_ms", in_ms(stats.lateness_p99)},
          {"datagrams", stats.datagrams},
          {"datagrams_lost", stats.datagrams_lost},
          {"datagrams_dropped", stats.datagrams_dropped},
          {"datagrams_missed", stats.datagrams_missed},
          {"datagram_flows", stats.datagram_flows}};
}

using Value = std::function<double(const LinkState&, const DirectedStats&)>;

MetricFamily family(const WanFigures& figures, const std::string& name, const std::string& help,
                    MetricType type, const Value& value) {
  MetricFamily made{.name = "causeway_wan_" + name, .help = help, .type = type, .metric = {}};
  for (const auto& [pair, link] : figures.links) {
    prometheus::ClientMetric& metric = made.metric.emplace_back();
    metric.label = {{"from", pair.first}, {"to", pair.second}};
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        value(link, figures.stats.at(pair));
  }
  return made;
}

MetricFamily valid_family(const WanFigures& figures) {
  MetricFamily made{.name = "causeway_wan_valid",
                    .help = "1 while this machine keeps up with what it simulates.",
                    .type = MetricType::Gauge,
                    .metric = {}};
  made.metric.emplace_back().gauge.value = figures.verdict.valid() ? 1 : 0;
  return made;
}

}  // namespace

std::string links_json(const WanFigures& figures) {
  Json links = Json::array();
  for (const auto& [pair, link] : figures.links) {
    links.push_back(link_json(pair, link, figures.stats.at(pair)));
  }
  return Json{{"name", figures.name}, {"t_s", figures.t_s}, {"links", std::move(links)}}.dump();
}

std::string maps_json(const WanFigures& figures) {
  Json maps = Json::array();
  for (const WanPort& port : figures.ports) {
    maps.push_back({{"protocol", port.protocol},
                    {"from", port.from},
                    {"to", port.to},
                    {"listen", port.listen},
                    {"target", port.target}});
  }
  return Json{{"maps", std::move(maps)}}.dump();
}

std::string regions_json(const WanFigures& figures) {
  Json regions = Json::array();
  for (const WanRegion& region : figures.regions) {
    regions.push_back(
        {{"region", region.name}, {"address", region.address}, {"enter", region.enter}});
  }
  return Json{{"regions", std::move(regions)}}.dump();
}

std::string capture_json(const WanFigures& figures) {
  const wan_sim::CaptureState capture =
      figures.capture.value_or(wan_sim::CaptureState{.on = false});
  return Json{{"on", capture.on},
              {"arrived", capture.arrived},
              {"lost", capture.lost},
              {"left_out", capture.left_out},
              {"bytes", capture.bytes},
              {"problem", figures.capture ? capture.problem : "there is no --pcap"}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string verdict_json(const WanFigures& figures) {
  const wan_sim::Verdict& verdict = figures.verdict;
  return Json{{"valid", verdict.valid()},
              {"text", wan_sim::to_string(verdict)},
              {"lateness_p99_ms", in_ms(verdict.lateness_p99)},
              {"lateness_max_ms", in_ms(verdict.lateness_max)},
              {"shortfall", verdict.shortfall},
              {"silent", verdict.silent}}
      .dump();
}

std::string metrics_text(const WanFigures& figures) {
  const auto gauge = MetricType::Gauge, counter = MetricType::Counter;
  const auto link = [&](const std::string& name, const std::string& help, MetricType type,
                        const Value& value) { return family(figures, name, help, type, value); };
  const std::vector<MetricFamily> families{
      link("rate_bytes_per_second", "What the link carries at most now.", gauge,
           [](const auto& now, const auto&) { return now.profile.rate_bytes_per_s; }),
      link("delay_seconds", "One-way delay of the link now.", gauge,
           [](const auto& now, const auto&) { return in_s(now.profile.delay); }),
      link("loss_ratio", "Share of packets that the link loses now.", gauge,
           [](const auto& now, const auto&) { return now.profile.loss.mean(); }),
      link("delivered_bytes_total", "Bytes delivered.", counter,
           [](const auto&, const auto& stats) { return double(stats.bytes); }),
      link("connections_total", "Connections opened, as dialled.", counter,
           [](const auto&, const auto& stats) { return double(stats.connections); }),
      link("buffered_bytes", "Bytes queued, under way, or waiting for a slow receiver.", gauge,
           [](const auto&, const auto& stats) { return double(stats.buffered_bytes); }),
      link("missed_bytes_total", "Bytes that this machine was too slow to carry.", counter,
           [](const auto&, const auto& stats) { return double(stats.missed_bytes); }),
      link("lateness_p99_seconds", "How late the engine itself releases bytes.", gauge,
           [](const auto&, const auto& stats) { return in_s(stats.lateness_p99); }),
      link("datagrams_total",
           "Datagrams delivered: UDP of the relay, each packet of the packet engine.", counter,
           [](const auto&, const auto& stats) { return double(stats.datagrams); }),
      link("datagrams_lost_total", "Datagrams lost by chance or by a fault.", counter,
           [](const auto&, const auto& stats) { return double(stats.datagrams_lost); }),
      link("datagrams_dropped_total", "Datagrams that found the queue full.", counter,
           [](const auto&, const auto& stats) { return double(stats.datagrams_dropped); }),
      link("datagrams_missed_total", "Datagrams that this machine had no room for.", counter,
           [](const auto&, const auto& stats) { return double(stats.datagrams_missed); }),
      valid_family(figures)};
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace causeway::apps
