#include "apps/run/tune/links.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "apps/run/config/config.h"
#include "apps/run/region/region_files.h"
#include "apps/run/tune/predict.h"
#include "diloco/pacing/time_model.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::run {
namespace {

constexpr std::size_t kRingOrdersMax = 8;  // regions whose orders are all tried
// The slowest links that a scenario may have.
constexpr double kRateMinMbitS = 0.01, kDelayMaxMs = 5'000;

std::optional<LinkStatus> measured_link(const std::filesystem::path& run, const std::string& from,
                                        const std::string& to) {
  const auto status = read_status(regions_folder(run) / from);
  if (!status) return std::nullopt;
  const auto link = status->links.find(to);
  return link == status->links.end() ? std::nullopt : std::optional(link->second);
}

double slowest_edge_s(const inter::LinkMatrix& links, const std::vector<std::string>& order,
                      double bytes) {
  double slowest_s = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& link = links.at({order[i], order[(i + 1) % order.size()]});
    if (link.bytes_per_s <= 0) return std::numeric_limits<double>::infinity();
    slowest_s = std::max(slowest_s, link.latency_s + bytes / link.bytes_per_s);
  }
  return slowest_s;
}

}  // namespace

wan_sim::Scenario links_of_profile(const std::filesystem::path& file,
                                   const std::vector<std::string>& regions) {
  wan_sim::Scenario scenario = wan_sim::load_scenario(file);
  for (const std::string& region : regions) {
    if (std::ranges::find(scenario.regions, region) != scenario.regions.end()) continue;
    throw ConfigError(file.string() + ": has no region '" + region +
                      "'; the links of a run join all its regions");
  }
  return scenario;
}

std::map<std::pair<std::string, std::string>, LinkStatus> measured_links(
    const std::filesystem::path& run, const std::vector<std::string>& regions) {
  std::map<std::pair<std::string, std::string>, LinkStatus> links;
  for (const std::string& from : regions) {
    for (const std::string& to : regions) {
      if (from == to) continue;
      auto link = measured_link(run, from, to);
      const auto back = measured_link(run, to, from);
      if (link && back && link->rate_mbit_s <= 0) {
        const double round_trip_ms = link->round_trip_ms;
        link = back;
        link->round_trip_ms = round_trip_ms;
      }
      if (link && link->rate_mbit_s <= 0 && link->connects == 0 && !link->via.empty()) {
        throw ConfigError(run.string() + ": " + from + " and " + to +
                          " had no link of their own, and what went between them by way of " +
                          link->via +
                          " was not measured; give --links PROFILE instead, with the "
                          "delay and the rate of that way");
      }
      if (!link || link->rate_mbit_s <= 0) {
        throw ConfigError(run.string() + ": its status.json files have no rate of the link from " +
                          from + " to " + to +
                          ", which takes exchanges of 1 MiB or more, or a link that smaller ones "
                          "wait for; give --links PROFILE instead");
      }
      links[{from, to}] = *link;
    }
  }
  return links;
}

std::string links_text_of_run(const std::filesystem::path& run,
                              const std::vector<std::string>& regions) {
  std::string text = "regions = [";
  for (const std::string& region : regions) text += "'" + region + "', ";
  text += "]\n";
  for (const auto& [pair, link] : measured_links(run, regions)) {
    text += fmt::format("[[link]]\nfrom = '{}'\nto = '{}'\ndelay_ms = {:f}\nrate_mbit_s = {:f}\n",
                        pair.first, pair.second, std::min(link.round_trip_ms / 2, kDelayMaxMs),
                        std::max(link.rate_mbit_s, kRateMinMbitS));
  }
  return text;
}

wan_sim::Scenario links_of_run(const std::filesystem::path& run,
                               const std::vector<std::string>& regions) {
  return wan_sim::parse_scenario(links_text_of_run(run, regions), run / "status.json");
}

inter::LinkMatrix link_matrix(const wan_sim::Scenario& scenario,
                              const std::vector<std::string>& regions) {
  inter::LinkMatrix matrix;
  for (const auto& [pair, profile] : scenario.links) {
    const bool ours = std::ranges::find(regions, pair.first) != regions.end() &&
                      std::ranges::find(regions, pair.second) != regions.end();
    if (!ours) continue;
    matrix[pair] = {std::chrono::duration<double>(profile.delay).count(), profile.rate_bytes_per_s};
  }
  return matrix;
}

Ring ring_all_reduce(const inter::LinkMatrix& links, const std::vector<std::string>& regions,
                     double gradient_bytes) {
  Ring best{.order = regions};
  if (regions.size() < 2) return best;
  std::vector<std::string> order = regions;
  std::ranges::sort(order);
  const auto n = static_cast<double>(order.size());
  const double hops = 2 * (n - 1);
  best = {order, hops * slowest_edge_s(links, order, gradient_bytes / n),
          hops * gradient_bytes / n};
  if (order.size() > kRingOrdersMax) return best;
  // The first region stays: a ring has no beginning.
  while (std::next_permutation(order.begin() + 1, order.end())) {
    const double seconds = hops * slowest_edge_s(links, order, gradient_bytes / n);
    if (seconds >= best.seconds) continue;
    best.order = order;
    best.seconds = seconds;
  }
  return best;
}

namespace {

namespace tuner = diloco::tuner;
using wan_sim::Time;

constexpr int kTransfersOfASize = 12;
constexpr std::uint64_t kPayloadMin = 16'000;
constexpr std::uint64_t kPayloadMax = 8'000'000;   // larger ones teach nothing about a link
constexpr std::uint64_t kLargeBytes = 16'000'000;  // what takes time for its bytes, jitter or not
constexpr Time kPause = std::chrono::seconds{1};
constexpr Time kGiveUp = std::chrono::hours{24};  // of virtual time, for all that a link is asked

// Of one directed link; its connection stays open.
class Prober {
 public:
  Prober(const wan_sim::Scenario& links, const std::string& from, const std::string& to)
      : wan_(links, {.mode = mode_for(links)}),
        flow_(wan_.network().open(from, to, wan_.count_connection({from, to}), true,
                                  [this](std::uint64_t bytes) { arrived_ += bytes; })) {}

  LinkProbe probe(LinkProbe link) {
    std::vector<tuner::Transfer> transfers;
    std::vector<double> payload_s;
    const std::uint64_t payload = link.payload_bytes;
    for (int i = 0; i < kTransfersOfASize; ++i) {
      for (const std::uint64_t bytes : {payload / 4, payload, kLargeBytes}) {
        const auto seconds = send(bytes);
        if (!seconds) return filled(std::move(link), transfers, payload_s);
        transfers.push_back({static_cast<double>(bytes), *seconds});
        if (bytes == payload) payload_s.push_back(*seconds);
      }
    }
    return filled(std::move(link), transfers, payload_s);
  }

 private:
  // Nothing: it does not arrive.
  std::optional<double> send(std::uint64_t bytes) {
    wan_.run_until(wan_.now() + kPause);
    const Time begin = wan_.now();
    const std::uint64_t wanted = arrived_ + bytes;
    wan_.network().offer(flow_, bytes, begin);
    while (arrived_ < wanted && wan_.step(kGiveUp)) {
    }
    if (arrived_ < wanted) return std::nullopt;
    return wan_sim::in_seconds(wan_.now() - begin);
  }

  static LinkProbe filled(LinkProbe link, const std::vector<tuner::Transfer>& transfers,
                          const std::vector<double>& payload_s) {
    if (transfers.empty()) return link;
    const tuner::LinkFit fit = tuner::fit_link(transfers);
    link.alpha_s = fit.latency_s;
    link.beta_s_per_byte = fit.seconds_per_byte;
    if (payload_s.empty()) return link;
    link.p50_s = tuner::quantile(payload_s, 0.5);
    link.p95_s = tuner::quantile(payload_s, 0.95);
    return link;
  }

  wan_sim::VirtualWan wan_;
  std::uint64_t arrived_ = 0;
  wan_sim::VirtualNetwork::FlowId flow_;
};

double seconds_at(double mbit_s, std::uint64_t bytes) {
  return 8e-6 * static_cast<double>(bytes) / mbit_s;
}

// What happens to other links is nothing to this one, unless the scenario has a timeline.
wan_sim::Scenario link_alone(const wan_sim::Scenario& links, const wan_sim::Pair& pair) {
  if (!links.timeline.empty() || !links.traces.empty()) return links;
  wan_sim::Scenario alone = links;
  alone.regions = {pair.first, pair.second};
  std::erase_if(alone.links, [&](const auto& link) {
    return link.first != pair && link.first != wan_sim::Pair{pair.second, pair.first};
  });
  std::erase_if(alone.hosts, [&](const wan_sim::Host& host) {
    return host.region != pair.first && host.region != pair.second;
  });
  return alone;
}

}  // namespace

std::vector<LinkProbe> probe_links(const wan_sim::Scenario& links,
                                   const std::vector<std::string>& regions,
                                   std::uint64_t payload_bytes) {
  const wan_sim::Scenario scenario = without_processes(links);
  std::vector<LinkProbe> out;
  for (const auto& [pair, cost] : link_matrix(scenario, regions)) {
    Prober prober(link_alone(scenario, pair), pair.first, pair.second);
    out.push_back(
        prober.probe({.from = pair.first,
                      .to = pair.second,
                      .payload_bytes = std::clamp(payload_bytes, kPayloadMin, kPayloadMax)}));
  }
  return out;
}

std::vector<LinkProbe> probed_links_of_run(const std::filesystem::path& run,
                                           const std::vector<std::string>& regions,
                                           std::uint64_t payload_bytes) {
  std::vector<LinkProbe> out;
  for (const auto& [pair, link] : measured_links(run, regions)) {
    const double rate = link.rate_p50_mbit_s > 0 ? link.rate_p50_mbit_s : link.rate_mbit_s;
    LinkProbe probe{.from = pair.first,
                    .to = pair.second,
                    .payload_bytes = payload_bytes,
                    .alpha_s = link.round_trip_ms / 2e3,
                    .beta_s_per_byte = seconds_at(rate, 1)};
    if (link.rate_p50_mbit_s > 0 && link.rate_p05_mbit_s > 0) {
      probe.p50_s = *probe.alpha_s + seconds_at(link.rate_p50_mbit_s, payload_bytes);
      probe.p95_s = *probe.alpha_s + seconds_at(link.rate_p05_mbit_s, payload_bytes);
    }
    out.push_back(std::move(probe));
  }
  return out;
}

}  // namespace causeway::run
