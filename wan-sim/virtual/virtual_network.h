// The bytes of the virtual engine: flows over the scenario's links in virtual time. Bytes are
// counts; whose they are is the caller's business. Two modes: chunks (the very rules that the relay
// runs in real time) and fluid (rates shared max-min fairly; events only where a flow starts or
// ends).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "wan-sim/link/link_rules.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

class VirtualNetwork {
 public:
  using OnArrival = std::function<void(std::uint64_t bytes)>;
  using FlowId = std::uint64_t;

  virtual ~VirtualNetwork() = default;

  // One direction of one connection. `on_arrival` is called from advance alone. `number` keys its
  // chance: the relay's number of the connection.
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

  // Puts what has left by now on its way, so that progress shows before a transfer ends.
  virtual void settle(Time) {}

  virtual void change(const Pair& pair, const LinkProfile& profile, Time now) = 0;
  virtual void stall(const Pair& pair, Time length, Time now) = 0;
  virtual void black_hole(const Pair& pair, bool on, Time now) = 0;
  virtual const LinkProfile& profile(const Pair& pair) const = 0;

  // Every draw of chance, with the link it was for.
  virtual void observe(std::function<void(const Pair&, const Decision&)> observer) = 0;
};

std::unique_ptr<VirtualNetwork> make_chunk_network(const Scenario& scenario);
std::unique_ptr<VirtualNetwork> make_fluid_network(const Scenario& scenario);

}  // namespace causeway::wan_sim
