#include "wan-sim/packet/packet_wan.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include "wan-sim/base/chance.h"
#include "wan-sim/base/verdict.h"
#include "wan-sim/scenario/timeline.h"

namespace causeway::wan_sim {
namespace {

constexpr std::size_t kFrameBytesMax = 65'536;
constexpr int kFramesAtOnce = 64;
constexpr Time kWaitMax = std::chrono::milliseconds{10};

Time now_of_clock() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

// Checked before anything is set up.
Scenario honoured(Scenario scenario, const PacketOptions& options) {
  require_honoured(scenario, Engine::packet);
  if (!options.on_process) refuse_process_actions(scenario);
  return scenario;
}

// Behind the headers, so that a checksum must find it.
void spoil(std::vector<std::uint8_t>& frame, double place) {
  const std::size_t first = std::min<std::size_t>(ETH_HLEN + 20, frame.size() - 1);
  const auto span = static_cast<double>(frame.size() - first);
  frame[first + static_cast<std::size_t>(place * span)] ^= 1;
}

}  // namespace

PacketWan::PacketWan(Scenario scenario, PacketOptions options)
    : scenario_(honoured(std::move(scenario), options)),
      options_(std::move(options)),
      namespaces_(scenario_, options_.named),
      timeline_(scenario_),
      begun_(now_of_clock()),
      buffer_(kFrameBytesMax) {
  const auto& regions = scenario_.regions;
  by_place_.resize(regions.size() * regions.size());
  for (const auto& [pair, profile] : scenario_.links) {
    const auto made =
        links_.emplace(pair, PacketLink(profile, key_of_link(scenario_.seed, pair))).first;
    const auto place = [&](const std::string& name) {
      return static_cast<std::size_t>(std::find(regions.begin(), regions.end(), name) -
                                      regions.begin());
    };
    by_place_[place(pair.first) * regions.size() + place(pair.second)] = &made->second;
  }
}

PacketLink* PacketWan::link(std::size_t from, std::size_t to) {
  return from == to ? nullptr : by_place_[from * scenario_.regions.size() + to];
}

void PacketWan::run(const std::function<bool()>& done) {
  make_this_thread_punctual();
  std::vector<pollfd> sockets;
  for (const int fd : namespaces_.sockets()) sockets.push_back({fd, POLLIN, 0});
  while (!done()) {
    const Time now = now_of_clock();
    const Time wait = std::clamp(next_event() - now, Time{0}, kWaitMax);
    const timespec timeout{0, wait.count()};
    if (::ppoll(sockets.data(), sockets.size(), &timeout, nullptr) > 0) {
      for (std::size_t i = 0; i < sockets.size(); ++i) {
        if (sockets[i].revents & POLLIN) receive(i);
      }
    }
    act_due(now_of_clock());
    send_due(now_of_clock());
  }
  count_overruns();
}

// What the cables brought faster than it was read.
void PacketWan::count_overruns() {
  for (const int cable : namespaces_.sockets()) {
    tpacket_stats seen{};
    socklen_t size = sizeof seen;
    if (::getsockopt(cable, SOL_PACKET, PACKET_STATISTICS, &seen, &size) == 0) {
      missed_packets_ += seen.tp_drops;
    }
  }
}

Time PacketWan::next_event() const {
  Time next = leaving_.empty() ? kNever : leaving_.top().at;
  if (const auto due = timeline_.next()) next = std::min(next, begun_ + *due);
  return next;
}

void PacketWan::receive(std::size_t from) {
  for (int i = 0; i < kFramesAtOnce; ++i) {
    const ssize_t bytes = ::recv(namespaces_.sockets()[from], buffer_.data(), buffer_.size(), 0);
    if (bytes < ETH_HLEN) return;
    pass(from, buffer_.data(), static_cast<std::size_t>(bytes), now_of_clock());
  }
}

void PacketWan::pass(std::size_t from, const std::uint8_t* frame, std::size_t bytes, Time now) {
  const int to = region_of_frame(frame, bytes);
  if (to < 0 || static_cast<std::size_t>(to) >= scenario_.regions.size()) return;
  PacketLink* over = link(from, static_cast<std::size_t>(to));
  if (!over) return;
  const auto fate = over->offer(bytes - ETH_HLEN, now);
  if (fate.leaves.empty()) return;
  auto copy = std::make_shared<std::vector<std::uint8_t>>(frame, frame + bytes);
  if (fate.corrupt_at) spoil(*copy, *fate.corrupt_at);
  for (const Time at : fate.leaves) {
    leaving_.push({at, next_sequence_++, static_cast<std::size_t>(to), copy});
  }
}

void PacketWan::send_due(Time now) {
  while (!leaving_.empty() && leaving_.top().at <= now) {
    const Leaving packet = leaving_.top();
    leaving_.pop();
    lateness_.add(now - packet.at);
    const int cable = namespaces_.sockets()[packet.region];
    const auto bytes = static_cast<ssize_t>(packet.frame->size());
    if (::send(cable, packet.frame->data(), packet.frame->size(), 0) != bytes) ++missed_packets_;
  }
}

void PacketWan::act_due(Time now) {
  for (const TimedAction& due : timeline_.take(now - begun_)) act(due.action, begun_ + due.at);
}

void PacketWan::act(const Action& action, Time at) {
  if (const auto* process = std::get_if<ProcessAction>(&action.what)) {
    return options_.on_process(*process);
  }
  for (const Pair& pair : action.links) {
    PacketLink& target = links_.at(pair);
    if (const auto* fault = std::get_if<Fault>(&action.what)) {
      if (fault->kind == FaultKind::black_hole) target.black_hole(true);
      if (fault->kind == FaultKind::stall) target.stall(at, fault->length);
    } else if (std::holds_alternative<Heal>(action.what)) {
      target.black_hole(false);
    } else if (const auto profile =
                   changed_profile(action, target.profile(), scenario_.links.at(pair))) {
      target.change(*profile, at);
    }
  }
}

std::map<Pair, PacketWan::Stats> PacketWan::stats() const {
  std::map<Pair, Stats> stats;
  for (const auto& [pair, link] : links_) {
    stats[pair] = {link.passed_bytes(), link.lost_packets(), link.dropped_packets()};
  }
  return stats;
}

Verdict PacketWan::verdict() const {
  Verdict verdict;
  verdict.lateness_max = scenario_.lateness_max;
  if (lateness_.count() < kReleasesMin) return verdict;
  verdict.lateness_p99 = lateness_.quantile(0.99);
  verdict.shortfall = static_cast<double>(missed_packets_) /
                      static_cast<double>(missed_packets_ + lateness_.count());
  return verdict;
}

}  // namespace causeway::wan_sim
