// The virtual engine: a discrete-event WAN under a virtual clock. Everything that happens is an
// event with a time; nothing waits, no socket is opened, and the same scenario and the same calls
// give the same events in the same order, byte for byte in the log.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "wan-sim/scenario/timeline.h"
#include "wan-sim/virtual/virtual_network.h"

namespace causeway::wan_sim {

enum class VirtualMode { chunks, fluid };

struct VirtualOptions {
  VirtualMode mode = VirtualMode::chunks;
  // One line per event worth telling; null: none. Must outlive the WAN.
  std::ostream* log = nullptr;
  // Whoever runs the regions' processes. Without one a scenario with such actions is refused.
  std::function<void(const ProcessAction&)> on_process{};
};

class VirtualWan {
 public:
  // Throws Errc::bad_scenario if the mode cannot honour the scenario.
  VirtualWan(Scenario scenario, VirtualOptions options = {});
  ~VirtualWan();

  // ---- The clock ----
  Time now() const { return now_; }
  // At the same time, in the order of the calls. A time that has passed counts as now.
  void at(Time time, std::function<void()> event);
  void after(Time delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }
  // The next event up to `limit`, if there is one.
  bool step(Time limit);
  void run_until(Time limit);

  // ---- The network ----
  const Scenario& scenario() const { return scenario_; }
  VirtualNetwork& network() { return *network_; }
  std::uint64_t count_connection(const Pair& dialled) { return ++connections_[dialled]; }
  // Called with every action of the timeline, after the links have obeyed it.
  void observe_actions(std::function<void(const Action&)> observer);
  // Whatever a timeline can say, now.
  void act(const Action& action);
  bool refused(const Pair& dialled) const { return refused_.contains(dialled); }

  void log(const std::string& line);
  std::uint64_t events() const { return events_; }

 private:
  struct Event {
    Time at;
    std::uint64_t sequence;
    std::function<void()> run;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };
  void arm_timeline();
  void apply(const Action& action);

  Scenario scenario_;
  VirtualOptions options_;
  std::unique_ptr<VirtualNetwork> network_;
  Timeline timeline_;
  Time now_{0};
  std::vector<Event> events_heap_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t events_ = 0;
  std::map<Pair, std::uint64_t> connections_;
  std::set<Pair> refused_;
  std::vector<std::function<void(const Action&)>> observers_;
};

}  // namespace causeway::wan_sim
