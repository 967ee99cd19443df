// A directed link in real time: the LinkModel, a timer, and figures.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include <asio/any_io_executor.hpp>
#include <asio/steady_timer.hpp>

#include "wan-sim/lateness.h"
#include "wan-sim/link_model.h"
#include "wan-sim/relay.h"

namespace causeway::wan_sim {

// One thread. Shared by the relay and by the connections that use it.
class Link : public std::enable_shared_from_this<Link> {
 public:
  using OnArrival = std::function<void(const Arrival&)>;

  Link(const asio::any_io_executor& executor, const LinkProfile& profile, std::uint64_t key);

  static Time now();

  std::uint64_t add_flow(std::uint64_t key, OnArrival on_arrival);
  void remove_flow(std::uint64_t flow);
  void offer(std::uint64_t flow, std::uint64_t bytes);
  void end(std::uint64_t flow, Ending ending);
  void stall(Time length);
  void stop() { timer_.cancel(); }  // after the last flow is removed; figures stay
  Time traverse(Time from) { return model_.traverse(from); }
  std::uint64_t window_bytes() const { return model_.window_bytes(); }

  std::uint64_t count_connection() { return ++stats_.connections; }  // its number
  void count_delivered(std::uint64_t bytes);
  void count_discarded(std::uint64_t bytes) { stats_.buffered_bytes -= bytes; }
  DirectedStats stats() const;

 private:
  void wake_in_time();
  void on_time();

  LinkModel model_;
  asio::steady_timer timer_;
  std::optional<Time> wake_at_;
  std::map<std::uint64_t, OnArrival> flows_;
  DirectedStats stats_;
  Lateness lateness_;
};

}  // namespace causeway::wan_sim
