// The packet engine: regions in network namespaces, joined by our own emulator over packet sockets.
// TCP and everything above it are the kernel's own. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "wan-sim/base/impairments.h"
#include "wan-sim/base/verdict.h"
#include "wan-sim/link/packet_link.h"
#include "wan-sim/live/live_wan.h"
#include "wan-sim/packet/namespaces.h"
#include "wan-sim/packet/packet_capture.h"
#include "wan-sim/scenario/scenario.h"
#include "wan-sim/scenario/timeline.h"

namespace causeway::wan_sim {

struct PacketOptions {
  // Whoever runs the regions' processes. Without one a scenario with such actions is refused.
  std::function<void(const ProcessAction&)> on_process{};
  std::function<void(const WanEvent&)> on_event{};
  bool named = true;  // so that `ip netns exec` knows the regions; one such WAN at a time
  // Gets every packet; none if it is null. It must outlive the engine.
  PacketCapture* capture = nullptr;
};

class PacketWan : public LiveWan {
 public:
  // Throws std::system_error: a scenario that this engine cannot honour, or what is missing on this
  // machine and how to get it. No other thread may run yet, unless as root. The scenario's timeline
  // begins now.
  explicit PacketWan(Scenario scenario, PacketOptions options = {});

  const Namespaces& namespaces() const { return namespaces_; }
  // Emulates until `done`, which is asked at least every 10 ms, says so.
  void run(const std::function<bool()>& done);

  // As LiveWan has them. Bytes are as the rate counts them, and what a region's cable missed stands
  // at each link out of it, for any of them may have lost it.
  Engine engine() const override { return Engine::packet; }
  void command(const std::string& line) override;
  std::map<Pair, DirectedStats> stats() const override;
  std::map<Pair, LinkState> links() const override;
  Verdict verdict() const override;

 private:
  // A directed link with what it has done.
  struct Line {
    Line(const LinkProfile& profile, std::uint64_t key) : rules(profile, key) {}
    PacketLink rules;
    std::size_t from = 0, to = 0;  // places of its regions
    std::size_t capture_place = 0;
    Lateness lateness;
    std::uint64_t delivered = 0, delivered_bytes = 0, buffered_bytes = 0;
    std::uint64_t missed = 0;  // by this machine, not by the scenario
  };
  // Between a region and the emulator.
  struct Cable {
    int socket = -1;
    std::uint64_t taken = 0, missed = 0;
  };
  struct Leaving {
    Time at;
    std::uint64_t sequence;
    Line* line;
    std::uint64_t bytes;  // as the rate counts them
    std::shared_ptr<const std::vector<std::uint8_t>> frame;
    bool operator>(const Leaving& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };
  void add_line(const Pair& pair, const LinkProfile& profile);
  void receive(std::size_t from);
  void pass(std::size_t from, const std::uint8_t* frame, std::size_t bytes, Time now);
  void send_due(Time now);
  void deliver(const Leaving& packet);
  void act_due(Time now);
  void act(const Action& action, Time at);
  void tell(WanEvent::Kind kind, const std::string& text);
  void count_overruns() const;
  Time next_event() const;
  Line* line(std::size_t from, std::size_t to);

  Scenario scenario_;
  PacketOptions options_;
  Namespaces namespaces_;
  std::map<Pair, Line> lines_;
  std::vector<Line*> by_place_;        // from x regions + to
  mutable std::vector<Cable> cables_;  // the kernel counts what they missed; asked when it matters
  Timeline timeline_;
  Time begun_;
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving_;
  std::uint64_t next_sequence_ = 0;
  std::vector<std::uint8_t> buffer_;
};

}  // namespace causeway::wan_sim
