// Which packets a link loses: a Gilbert-Elliott chain of two states, stepped once per packet of
// kPacketBytes of a flow. Independent loss is the chain that never leaves its first state. Pure,
// and drawn by (key, packet): the same bytes lose the same packets again, whatever the time.
#pragma once

#include <cstdint>

namespace causeway::wan_sim {

// The payload of a full TCP segment on Ethernet, with timestamps.
inline constexpr std::uint64_t kPacketBytes = 1448;

// Gilbert (1960) and Elliott (1963).
struct LossProfile {
  double good = 0, bad = 0;     // probability of losing a packet in each state
  double enter = 0, leave = 1;  // probability, per packet, of entering and leaving the bad state
  bool operator==(const LossProfile&) const = default;

  bool any() const { return good > 0 || (bad > 0 && enter > 0); }
  double mean() const { return good + (bad - good) * enter / (enter + leave); }
};

LossProfile independent_loss(double probability);
// Loses `probability` of all packets in bursts of `burst_packets` on average.
LossProfile burst_loss(double probability, double burst_packets);

// Mixed into the key of a flow whose jitter is drawn by that key too.
inline constexpr std::uint64_t kLossKey = 0x6c6f7373;

class LossChain {
 public:
  explicit LossChain(std::uint64_t key) : key_(key) {}

  // Packets in order: 0, 1, 2, ...
  bool loses_next(const LossProfile& profile);
  // A packet that is sent again comes a round trip later or more: the burst that hit it is over,
  // and it is lost with the mean probability.
  bool loses_again(const LossProfile& profile, std::uint64_t packet, std::uint64_t attempt) const;
  std::uint64_t packets() const { return packet_; }

 private:
  std::uint64_t key_;
  std::uint64_t packet_ = 0;
  bool bad_ = false;
};

}  // namespace causeway::wan_sim
