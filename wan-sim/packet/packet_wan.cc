#include "wan-sim/packet/packet_wan.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

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

std::span<const std::uint8_t> ip_of(std::span<const std::uint8_t> frame) {
  return frame.subspan(ETH_HLEN);
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
      by_place_(scenario_.regions.size() * scenario_.regions.size()),
      timeline_(scenario_),
      begun_(now_of_clock()),
      buffer_(kFrameBytesMax) {
  for (const int socket : namespaces_.sockets()) cables_.push_back({.socket = socket});
  for (const auto& [pair, profile] : scenario_.links) add_line(pair, profile);
}

void PacketWan::add_line(const Pair& pair, const LinkProfile& profile) {
  const auto& regions = scenario_.regions;
  const auto place = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(regions.begin(), regions.end(), name) -
                                    regions.begin());
  };
  Line& made = lines_.try_emplace(pair, profile, key_of_link(scenario_.seed, pair)).first->second;
  made.from = place(pair.first);
  made.to = place(pair.second);
  if (options_.capture) made.capture_place = options_.capture->place_of(pair);
  by_place_[made.from * regions.size() + made.to] = &made;
}

PacketWan::Line* PacketWan::line(std::size_t from, std::size_t to) {
  return from == to ? nullptr : by_place_[from * scenario_.regions.size() + to];
}

void PacketWan::run(const std::function<bool()>& done) {
  make_this_thread_punctual();
  std::vector<pollfd> sockets;
  for (const Cable& cable : cables_) sockets.push_back({cable.socket, POLLIN, 0});
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
    if (options_.capture) options_.capture->on_time(now);
  }
}

// What the cables brought faster than it was read. The kernel tells it once.
void PacketWan::count_overruns() const {
  for (Cable& cable : cables_) {
    tpacket_stats seen{};
    socklen_t size = sizeof seen;
    if (::getsockopt(cable.socket, SOL_PACKET, PACKET_STATISTICS, &seen, &size) == 0)
      cable.missed += seen.tp_drops;
  }
}

Time PacketWan::next_event() const {
  Time next = leaving_.empty() ? kNever : leaving_.top().at;
  if (const auto due = timeline_.next()) next = std::min(next, begun_ + *due);
  return next;
}

void PacketWan::receive(std::size_t from) {
  for (int i = 0; i < kFramesAtOnce; ++i) {
    const ssize_t bytes = ::recv(cables_[from].socket, buffer_.data(), buffer_.size(), 0);
    if (bytes < ETH_HLEN) return;
    ++cables_[from].taken;
    pass(from, buffer_.data(), static_cast<std::size_t>(bytes), now_of_clock());
  }
}

void PacketWan::pass(std::size_t from, const std::uint8_t* frame, std::size_t bytes, Time now) {
  const int to = region_of_frame(frame, bytes);
  if (to < 0 || static_cast<std::size_t>(to) >= scenario_.regions.size()) return;
  Line* over = line(from, static_cast<std::size_t>(to));
  if (!over) return;
  const auto fate = over->rules.offer(bytes - ETH_HLEN, now);
  if (fate.leaves.empty()) {
    if (options_.capture) {
      options_.capture->add_lost(over->capture_place, ip_of({frame, bytes}), now,
                                 kPacketLosses[static_cast<std::size_t>(fate.loss)]);
    }
    return;
  }
  auto copy = std::make_shared<std::vector<std::uint8_t>>(frame, frame + bytes);
  if (fate.corrupt_at) spoil(*copy, *fate.corrupt_at);
  for (const Time at : fate.leaves) {
    over->buffered_bytes += fate.bytes;
    leaving_.push({at, next_sequence_++, over, fate.bytes, copy});
  }
}

void PacketWan::send_due(Time now) {
  while (!leaving_.empty() && leaving_.top().at <= now) {
    const Leaving packet = leaving_.top();
    leaving_.pop();
    packet.line->lateness.add(now - packet.at);
    packet.line->buffered_bytes -= packet.bytes;
    deliver(packet);
  }
}

void PacketWan::deliver(const Leaving& packet) {
  Line& over = *packet.line;
  const auto bytes = static_cast<ssize_t>(packet.frame->size());
  const bool sent =
      ::send(cables_[over.to].socket, packet.frame->data(), packet.frame->size(), 0) == bytes;
  over.delivered += sent;
  over.delivered_bytes += sent ? packet.bytes : 0;
  over.missed += !sent;
  if (!options_.capture) return;
  if (sent)
    options_.capture->add_arrived(over.capture_place, ip_of(*packet.frame), packet.at);
  else
    options_.capture->add_lost(over.capture_place, ip_of(*packet.frame), packet.at,
                               "lost by this machine, not by the scenario");
}

void PacketWan::act_due(Time now) {
  for (const TimedAction& due : timeline_.take(now - begun_)) act(due.action, begun_ + due.at);
}

void PacketWan::command(const std::string& line) {
  const auto actions = parse_action(scenario_, line, Engine::packet);
  if (!options_.on_process) refuse_process_actions(actions);
  const Time now = now_of_clock();
  tell(WanEvent::Kind::commanded, line);
  timeline_.add(actions, now - begun_);
  act_due(now);
}

void PacketWan::act(const Action& action, Time at) {
  if (!action.text.empty()) tell(WanEvent::Kind::acted, action.text);
  if (const auto* process = std::get_if<ProcessAction>(&action.what)) {
    return options_.on_process(*process);
  }
  for (const Pair& pair : action.links) {
    PacketLink& target = lines_.at(pair).rules;
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

void PacketWan::tell(WanEvent::Kind kind, const std::string& text) {
  if (options_.on_event)
    options_.on_event({.kind = kind, .at = now_of_clock() - begun_, .text = text});
}

std::map<Pair, DirectedStats> PacketWan::stats() const {
  count_overruns();
  std::map<Pair, DirectedStats> stats;
  for (const auto& [pair, line] : lines_) {
    stats[pair] = {.bytes = line.delivered_bytes,
                   .releases = line.lateness.count(),
                   .buffered_bytes = line.buffered_bytes,
                   .lateness_p99 = line.lateness.quantile(0.99),
                   .datagrams = line.delivered,
                   .datagrams_lost = line.rules.lost_packets(),
                   .datagrams_dropped = line.rules.dropped_packets(),
                   .datagrams_missed = line.missed + cables_[line.from].missed};
  }
  return stats;
}

std::map<Pair, LinkState> PacketWan::links() const {
  std::map<Pair, LinkState> links;
  for (const auto& [pair, line] : lines_) {
    links[pair] = {.profile = line.rules.profile(), .black_hole = line.rules.is_black_hole()};
  }
  return links;
}

Verdict PacketWan::verdict() const {
  count_overruns();
  Verdict verdict;
  verdict.lateness_max = scenario_.lateness_max;
  for (const auto& [pair, line] : lines_) {
    if (line.lateness.count() < kReleasesMin) continue;
    verdict.lateness_p99 = std::max(verdict.lateness_p99, line.lateness.quantile(0.99));
    verdict.shortfall = std::max(verdict.shortfall, share_missed(line.missed, line.delivered));
  }
  for (const Cable& cable : cables_) {
    if (cable.taken + cable.missed < kReleasesMin) continue;
    verdict.shortfall = std::max(verdict.shortfall, share_missed(cable.missed, cable.taken));
  }
  return verdict;
}

}  // namespace causeway::wan_sim
