// The packet engine: regions in network namespaces, joined by our own emulator over packet sockets.
// TCP and everything above it are the kernel's own. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "wan-sim/base/impairments.h"
#include "wan-sim/base/verdict.h"
#include "wan-sim/link/packet_link.h"
#include "wan-sim/packet/namespaces.h"
#include "wan-sim/scenario/scenario.h"
#include "wan-sim/scenario/timeline.h"

namespace causeway::wan_sim {

struct PacketOptions {
  // Whoever runs the regions' processes. Without one a scenario with such actions is refused.
  std::function<void(const ProcessAction&)> on_process{};
  bool named = true;  // so that `ip netns exec` knows the regions; one such WAN at a time
};

class PacketWan {
 public:
  // Throws std::system_error: a scenario that this engine cannot honour, or what is missing on this
  // machine and how to get it. No other thread may run yet, unless as root.
  explicit PacketWan(Scenario scenario, PacketOptions options = {});

  const Namespaces& namespaces() const { return namespaces_; }
  // Emulates until `done`, which is asked at least every 10 ms, says so.
  void run(const std::function<bool()>& done);

  struct Stats {
    std::uint64_t bytes = 0;  // as the rate counts them
    std::uint64_t lost_packets = 0, dropped_packets = 0;
  };
  std::map<Pair, Stats> stats() const;
  Verdict verdict() const;

 private:
  struct Leaving {
    Time at;
    std::uint64_t sequence;
    std::size_t region;
    std::shared_ptr<const std::vector<std::uint8_t>> frame;
    bool operator>(const Leaving& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };
  void receive(std::size_t from);
  void pass(std::size_t from, const std::uint8_t* frame, std::size_t bytes, Time now);
  void send_due(Time now);
  void act_due(Time now);
  void count_overruns();
  void act(const Action& action, Time at);
  Time next_event() const;
  PacketLink* link(std::size_t from, std::size_t to);

  Scenario scenario_;
  PacketOptions options_;
  Namespaces namespaces_;
  std::map<Pair, PacketLink> links_;
  std::vector<PacketLink*> by_place_;  // from x regions + to
  Timeline timeline_;
  Time begun_;
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving_;
  std::uint64_t next_sequence_ = 0;
  Lateness lateness_;
  std::uint64_t missed_packets_ = 0;  // by this machine, not by the scenario
  std::vector<std::uint8_t> buffer_;
};

}  // namespace causeway::wan_sim
