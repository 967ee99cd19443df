#include "apps/run/tune_link_probe.h"

#include <algorithm>

#include "apps/run/tune_links.h"
#include "wan-sim/virtual_wan.h"

namespace causeway::run {
namespace {

namespace tuner = diloco::tuner;
using wan_sim::Time;

constexpr int kTransfersOfASize = 12;
constexpr double kSizes[] = {1.0 / 16, 1.0 / 4, 1, 4};
constexpr std::uint64_t kBytesMin = 1024;
constexpr std::uint64_t kPayloadMax = 64'000'000;  // larger ones teach nothing about a link
constexpr Time kPause = std::chrono::seconds{1};
constexpr Time kGiveUp = std::chrono::hours{24};  // of virtual time, for all that a link is asked

// Transfers over one directed link, its connections kept open.
class Prober {
 public:
  Prober(const wan_sim::Scenario& links, const std::string& from, const std::string& to,
         std::uint32_t connections)
      : wan_(links, {.mode = wan_sim::VirtualMode::chunks}) {
    for (std::uint32_t i = 0; i < connections; ++i) {
      flows_.push_back(wan_.network().open(from, to, wan_.count_connection({from, to}), true,
                                           [this](std::uint64_t bytes) { arrived_ += bytes; }));
    }
  }

  tuner::LinkFit fit(std::uint64_t payload_bytes) {
    std::vector<tuner::Transfer> transfers;
    for (int i = 0; i < kTransfersOfASize; ++i) {
      for (const double size : kSizes) {
        const auto bytes = static_cast<std::uint64_t>(size * static_cast<double>(payload_bytes));
        if (!send(std::max(kBytesMin, bytes), transfers)) return tuner::fit_link(transfers);
      }
    }
    return tuner::fit_link(transfers);
  }

 private:
  // False: it takes too long, and is counted with what it took.
  bool send(std::uint64_t bytes, std::vector<tuner::Transfer>& transfers) {
    wan_.run_until(wan_.now() + kPause);
    const Time begin = wan_.now();
    const std::uint64_t wanted = arrived_ + bytes;
    std::uint64_t left = bytes;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const std::uint64_t share = left / (flows_.size() - i);
      if (share > 0) wan_.network().offer(flows_[i], share, begin);
      left -= share;
    }
    while (arrived_ < wanted && wan_.step(kGiveUp)) {
    }
    transfers.push_back({static_cast<double>(bytes), wan_sim::in_seconds(wan_.now() - begin)});
    return arrived_ >= wanted;
  }

  wan_sim::VirtualWan wan_;
  std::vector<wan_sim::VirtualNetwork::FlowId> flows_;
  std::uint64_t arrived_ = 0;
};

}  // namespace

std::vector<LinkProbe> probe_links(const wan_sim::Scenario& links,
                                   const std::vector<std::string>& regions,
                                   std::uint64_t payload_bytes, std::uint32_t connections) {
  std::vector<LinkProbe> out;
  for (const auto& [pair, cost] : link_matrix(links, regions)) {
    Prober prober(links, pair.first, pair.second, connections);
    out.push_back({pair.first, pair.second, prober.fit(std::min(payload_bytes, kPayloadMax))});
  }
  return out;
}

std::vector<LinkProbe> probed_links_of_run(const std::filesystem::path& run,
                                           const std::vector<std::string>& regions) {
  std::vector<LinkProbe> out;
  for (const auto& [pair, link] : measured_links(run, regions)) {
    tuner::LinkFit fit{.latency_s = link.round_trip_ms / 2e3,
                       .seconds_per_byte = 8e-6 / link.rate_mbit_s};
    if (link.rate_p50_mbit_s > 0) fit.p50 = link.rate_mbit_s / link.rate_p50_mbit_s;
    if (link.rate_p05_mbit_s > 0) fit.p95 = link.rate_mbit_s / link.rate_p05_mbit_s;
    out.push_back({pair.first, pair.second, fit});
  }
  return out;
}

}  // namespace causeway::run
