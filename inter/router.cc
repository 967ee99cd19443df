#include "inter/router.h"

#include <spdlog/spdlog.h>

namespace causeway::inter {
namespace {

constexpr double kWorthwhile = 0.7;   // of the direct way's time
constexpr unsigned kDirectEvery = 8;  // blobs
constexpr std::size_t kPassesMax = 4096;

}  // namespace

void Router::on_measured(const std::string& peer, std::chrono::microseconds round_trip,
                         double bytes_per_s) {
  if (bytes_per_s > 0) {
    links_[{self_, peer}] = {std::chrono::duration<double>(round_trip).count() / 2, bytes_per_s};
  }
}

void Router::on_report(const std::string& from, const LinkReport& report) {
  std::erase_if(links_, [&](const auto& link) { return link.first.first == from; });
  for (const LinkReport::Link& link : report.links) {
    links_[{from, link.to}] = {1e-6 * static_cast<double>(link.latency_us),
                               static_cast<double>(link.bytes_per_s)};
  }
}

void Router::on_peer_down(const std::string& peer) {
  std::erase_if(links_, [&](const auto& link) {
    return link.first.first == peer || link.first.second == peer;
  });
}

LinkReport Router::report() const {
  LinkReport report;
  for (const auto& [ends, cost] : links_) {
    if (ends.first == self_ && report.links.size() < kReportedLinksMax) {
      report.links.push_back({ends.second, static_cast<std::uint64_t>(1e6 * cost.latency_s),
                              static_cast<std::uint64_t>(cost.bytes_per_s)});
    }
  }
  return report;
}

std::string Router::via(const std::string& to, std::uint64_t bytes, bool reachable) {
  const bool measured = links_.contains({self_, to});
  if (routing_ == Routing::direct || (reachable && !measured)) {
    return "";
  }
  const std::string relay = find_relay(links_, self_, to, static_cast<double>(bytes), kWorthwhile);
  if (chosen_[to] != relay) {
    spdlog::info("{}: blobs to {} go {}", self_, to,
                 relay.empty() ? "directly" : "through " + relay);
    chosen_[to] = relay;
  }
  if (reachable && !relay.empty() && ++relayed_[to] % kDirectEvery == 0) {
    return "";
  }
  return relay;
}

void Router::pass_later(const BlobId& id, const std::string& to) {
  if (passes_.size() >= kPassesMax) {
    passes_.clear();  // they are fetched instead
  }
  passes_[id].insert(to);
}

std::vector<std::string> Router::take_passes(const BlobId& id) {
  const auto found = passes_.find(id);
  if (found == passes_.end()) {
    return {};
  }
  std::vector<std::string> regions(found->second.begin(), found->second.end());
  passes_.erase(found);
  return regions;
}

}  // namespace causeway::inter
