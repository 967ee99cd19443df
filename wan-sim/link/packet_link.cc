#include "wan-sim/link/packet_link.h"

#include <algorithm>

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {
namespace {

constexpr double kPayloadShare = 1448.0 / 1500;
enum PacketPurpose : std::uint64_t { kReorder = 1, kDuplicate, kCorrupt, kCorruptPlace, kJitter };

}  // namespace

PacketLink::PacketLink(const LinkProfile& profile, std::uint64_t key)
    : profile_(profile), all_(key), stalls_(profile.stalls_per_s, profile.stall, key) {}

double PacketLink::Flow::draw(std::uint64_t purpose) const {
  return uniform(mix(mix(key_, purpose), packet_));
}

void PacketLink::change(const LinkProfile& profile, Time now) {
  profile_ = profile;
  const bool hold = profile.rate_bytes_per_s <= 0;
  if (hold && !held_) stalls_.hold(now);
  if (!hold && held_) stalls_.release(now);
  held_ = hold;
}

bool PacketLink::has_room(std::uint64_t bytes, Time now) {
  while (!waiting_.empty() && waiting_.front().begin <= now) {
    waiting_bytes_ -= waiting_.front().bytes;
    waiting_.pop_front();
  }
  return waiting_bytes_ + bytes <= profile_.queue_limit_bytes();
}

PacketLoss PacketLink::loss_of(Flow& flow) const {
  // Drawn for each packet, whatever else would lose it, so that the next ones keep their chance.
  const bool unlucky = profile_.loss.any() && flow.loss_.loses_next(profile_.loss);
  if (black_hole_) return PacketLoss::black_hole;
  if (held_) return PacketLoss::standstill;
  return unlucky ? PacketLoss::chance : PacketLoss::none;
}

PacketLink::Fate PacketLink::offer(Flow& flow, std::uint64_t ip_bytes, Time now) {
  stalls_.start(now);
  stalls_.forget(std::min(now, free_at_));
  ++flow.packet_;
  if (const PacketLoss loss = loss_of(flow); loss != PacketLoss::none) {
    ++lost_packets_;
    return {.loss = loss};
  }
  const double cost = static_cast<double>(ip_bytes) * kPayloadShare;
  const auto bytes = static_cast<std::uint64_t>(cost);
  if (!has_room(bytes, now)) {
    ++dropped_packets_;
    return {.loss = PacketLoss::full_queue};
  }
  const Time begin = stalls_.done(std::max(free_at_, now), Time{0});
  const Time sending(static_cast<Time::rep>(1e9 * cost / profile_.rate_bytes_per_s));
  free_at_ = stalls_.done(begin, sending);
  waiting_.push_back({begin, bytes});
  waiting_bytes_ += bytes;
  Fate fate = leave(flow);
  fate.bytes = bytes;
  return fate;
}

PacketLink::Fate PacketLink::leave(Flow& flow) const {
  Fate fate;
  const double z =
      flow.jitter_.draw(profile_.jitter, mix(mix(flow.key_, kJitter), flow.packet_), false);
  const Time delay = std::max(Time{0}, profile_.delay + jitter_of(profile_.jitter, z));
  // A reordered packet overtakes those under way; jitter alone keeps the order, unless it is free.
  const bool overtakes = profile_.reorder > 0 && flow.draw(kReorder) < profile_.reorder;
  Time leaves = overtakes ? free_at_ : free_at_ + delay;
  if (!overtakes && !profile_.jitter_reorders)
    leaves = flow.last_leave_ = std::max(flow.last_leave_, leaves);
  fate.leaves.push_back(leaves);
  if (profile_.duplicate > 0 && flow.draw(kDuplicate) < profile_.duplicate)
    fate.leaves.push_back(leaves);
  if (profile_.corrupt > 0 && flow.draw(kCorrupt) < profile_.corrupt)
    fate.corrupt_at = flow.draw(kCorruptPlace);
  return fate;
}

}  // namespace causeway::wan_sim
