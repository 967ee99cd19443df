// The virtual engine: a discrete-event WAN under a virtual clock. Everything that happens is an
// event with a time; nothing waits, no socket is opened, and the same scenario and the same calls
// give the same events in the same order, byte for byte in the log.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "wan-sim/link/link_rules.h"
#include "wan-sim/scenario/scenario.h"
#include "wan-sim/scenario/timeline.h"

namespace causeway::wan_sim {

// The bytes of the virtual engine: flows over the scenario's links in virtual time. Bytes are
// counts; whose they are is the caller's business. Two modes: chunks (the very rules that the relay
// runs in real time) and fluid (rates shared max-min fairly; events only where a flow starts or
// ends).
class VirtualNetwork {
 public:
  using OnArrival = std::function<void(std::uint64_t bytes)>;
  using FlowId = std::uint64_t;

  virtual ~VirtualNetwork() = default;

  // One direction of one connection. `on_arrival` is called from advance and settle. `number` keys
  // its chance: the relay's number of the connection.
  virtual FlowId open(const std::string& from, const std::string& to, std::uint64_t number,
                      bool forward, OnArrival on_arrival) = 0;
  virtual void close(FlowId flow) = 0;  // what is under way never arrives
  virtual void offer(FlowId flow, std::uint64_t bytes, Time now) = 0;
  // When a lone packet sent now arrives; none if it is lost.
  virtual std::optional<Time> traverse(const Pair& pair, Time now, std::uint64_t key) = 0;

  // When advance is needed next; kNever: not before something is offered.
  virtual Time next_event() const = 0;
  // Hands over what has arrived at exactly the next event's time, or, in the fluid mode, by `now`.
  virtual void advance(Time now) = 0;

  // Hands over what has arrived by now of a transfer that goes on, so that its progress shows.
  virtual void settle(FlowId, Time) {}

  virtual void change(const Pair& pair, const LinkProfile& profile, Time now) = 0;
  virtual void stall(const Pair& pair, Time length, Time now) = 0;
  virtual void black_hole(const Pair& pair, bool on, Time now) = 0;
  virtual const LinkProfile& profile(const Pair& pair) const = 0;

  // Every draw of chance, with the link it was for.
  virtual void observe(std::function<void(const Pair&, const Decision&)> observer) = 0;
};

std::unique_ptr<VirtualNetwork> make_chunk_network(const Scenario& scenario);
std::unique_ptr<VirtualNetwork> make_fluid_network(const Scenario& scenario);

// Max-min fair rates: no flow can get more without one that has no more getting less. Bertsekas and
// Gallager, Data Networks, 6.5.2: the resource that gives each of its flows least is served first.
// Resources have capacities; a flow uses all of `uses` at once, and these are not empty. Returns
// the rate of each flow, in the unit of the capacities.
std::vector<double> max_min_rates(std::span<const double> capacities,
                                  std::span<const std::vector<std::uint32_t>> uses);

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
