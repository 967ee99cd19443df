// The rules of one directed link for packets that may be lost, pure: a packet and the time go in,
// and when it and its copies leave comes out.
//
//   lost? ─► queue, full: dropped ─► at the rate, not in a stall ─► + delay + jitter ─► far end
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "wan-sim/base/impairments.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

// Why a packet did not arrive.
enum class PacketLoss : std::uint8_t { none, chance, black_hole, standstill, full_queue };
inline constexpr std::string_view kPacketLosses[] = {"", "lost by chance", "lost in a black hole",
                                                     "lost: the link's rate is 0",
                                                     "dropped: the queue was full"};

class PacketLink {
 public:
  // Packets whose chance is drawn by (key, packet's number), whatever else the link carries.
  class Flow {
   public:
    explicit Flow(std::uint64_t key) : key_(key), loss_(key) {}

   private:
    friend class PacketLink;
    double draw(std::uint64_t purpose) const;
    std::uint64_t key_;
    LossChain loss_;
    JitterChain jitter_;
    std::uint64_t packet_ = 0;
    Time last_leave_{0};
  };

  PacketLink(const LinkProfile& profile, std::uint64_t key);

  struct Fate {
    std::vector<Time> leaves{};          // at the far end; none: lost; two: duplicated
    std::optional<double> corrupt_at{};  // place of the byte to spoil, as a share of the packet
    std::uint64_t bytes = 0;             // as the rate counts them
    PacketLoss loss = PacketLoss::none;  // why nothing leaves
  };
  // `bytes`: of the IP packet. A full one is charged its TCP payload, so that the rate is that of
  // the stream, as in the other engines. `now` never goes back.
  Fate offer(Flow& flow, std::uint64_t bytes, Time now);
  // All packets as one flow: the kernel's TCP decides what packets there are, so a run repeats its
  // draws but not its packets.
  Fate offer(std::uint64_t bytes, Time now) { return offer(all_, bytes, now); }

  void stall(Time now, Time length) { stalls_.add(now, length); }
  void black_hole(bool on) { black_hole_ = on; }
  void change(const LinkProfile& profile, Time now);

  const LinkProfile& profile() const { return profile_; }
  bool is_black_hole() const { return black_hole_; }
  std::uint64_t lost_packets() const { return lost_packets_; }
  std::uint64_t dropped_packets() const { return dropped_packets_; }  // by a full queue

 private:
  struct Waiting {
    Time begin;
    std::uint64_t bytes;
  };
  bool has_room(std::uint64_t bytes, Time now);
  PacketLoss loss_of(Flow& flow) const;
  Fate leave(Flow& flow) const;

  LinkProfile profile_;
  Flow all_;
  StallSchedule stalls_;
  bool black_hole_ = false, held_ = false;
  Time free_at_{0};
  std::deque<Waiting> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t lost_packets_ = 0, dropped_packets_ = 0;
};

}  // namespace causeway::wan_sim
