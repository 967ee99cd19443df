#include "apps/run/tune/link_probe.h"

#include <algorithm>

#include "apps/run/tune/links.h"
#include "apps/run/tune/world.h"
#include "diloco/pacing/link_fit.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::run {
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

}  // namespace

std::vector<LinkProbe> probe_links(const wan_sim::Scenario& links,
                                   const std::vector<std::string>& regions,
                                   std::uint64_t payload_bytes) {
  const wan_sim::Scenario scenario = without_processes(links);
  std::vector<LinkProbe> out;
  for (const auto& [pair, cost] : link_matrix(scenario, regions)) {
    Prober prober(scenario, pair.first, pair.second);
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
