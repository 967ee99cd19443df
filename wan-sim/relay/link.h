// A directed link in real time: its rules, a timer, and figures.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/steady_timer.hpp>

#include "wan-sim/base/impairments.h"
#include "wan-sim/base/verdict.h"
#include "wan-sim/link/link_rules.h"
#include "wan-sim/relay/relay.h"

namespace causeway::wan_sim {

// Faults that touch the bytes of a link's connections, not their timing: armed by the timeline, and
// asked by the connection as it delivers. Pure.
class LinkFaults {
 public:
  Time slow_close{0};  // how much longer an end of stream takes

  // One bit of the first byte at or behind this offset of a stream will be flipped.
  void corrupt_from(std::uint64_t offset) { corrupt_from_ = offset; }
  // Where in the `bytes` that a stream delivers next, at `offset`, to flip a bit; disarms.
  std::optional<std::uint64_t> take_corruption(std::uint64_t offset, std::uint64_t bytes) {
    if (!corrupt_from_ || bytes == 0 || *corrupt_from_ >= offset + bytes) return std::nullopt;
    const std::uint64_t place = *corrupt_from_ > offset ? *corrupt_from_ - offset : 0;
    corrupt_from_.reset();
    return place;
  }

  // The connection that delivers the link's next byte number `bytes` is reset behind it.
  void kill_after(std::uint64_t bytes) { kill_after_ = bytes; }
  std::uint64_t deliverable(std::uint64_t bytes) const {
    return kill_after_ ? std::min(bytes, *kill_after_) : bytes;
  }
  // True if that was the connection's end; disarms.
  bool kills_after(std::uint64_t delivered) {
    if (!kill_after_) return false;
    *kill_after_ -= std::min(delivered, *kill_after_);
    if (*kill_after_ > 0) return false;
    kill_after_.reset();
    return true;
  }

 private:
  std::optional<std::uint64_t> corrupt_from_, kill_after_;
};

// One thread. Shared by the relay and by the connections that use it.
class Link : public std::enable_shared_from_this<Link> {
 public:
  using OnArrival = std::function<void(const Arrival&)>;

  Link(const asio::any_io_executor& executor, const LinkProfile& profile, std::uint64_t key);

  static Time now();

  std::uint64_t add_flow(std::uint64_t key, OnArrival on_arrival);
  void remove_flow(std::uint64_t flow);
  // `at`: when they were there; bytes that come from another link, at their arrival from it.
  void offer(std::uint64_t flow, std::uint64_t bytes, Time at);
  void end(std::uint64_t flow, StreamEnd ending, Time at);
  void stop() { timer_.cancel(); }  // after the last flow is removed; figures stay
  std::optional<Time> traverse(Time from, std::uint64_t key) { return rules_->traverse(from, key); }
  std::uint64_t window_bytes() const { return rules_->window_bytes(); }

  // What the timeline and the control socket do.
  const LinkProfile& profile() const { return rules_->profile(); }
  void change(const LinkProfile& profile, Time at);
  void set_return_delay(Time delay) { rules_->set_return_delay(delay); }
  void stall(Time at, Time length);
  void black_hole(bool on, Time at);
  bool is_black_hole() const { return rules_->is_black_hole(); }
  LinkFaults& faults() { return faults_; }
  void observe(std::function<void(const Decision&)> observer) {
    rules_->observe(std::move(observer));
  }

  std::uint64_t count_connection() { return ++stats_.connections; }  // its number
  void count_read(std::uint64_t bytes) { stats_.buffered_bytes += bytes; }
  void count_delivered(std::uint64_t bytes);
  void count_discarded(std::uint64_t bytes) { stats_.buffered_bytes -= bytes; }
  // So many bytes waited in a sender's socket between these times, and the relay had not read them.
  void count_unread(std::uint64_t flow, std::uint64_t bytes, Time from, Time until);
  DirectedStats stats() const;

 private:
  void wake_in_time();
  void on_time();

  std::unique_ptr<LinkRules> rules_;
  asio::steady_timer timer_;
  std::optional<Time> wake_at_;
  std::map<std::uint64_t, OnArrival> flows_;
  std::vector<Arrival> arrivals_;
  LinkFaults faults_;
  DirectedStats stats_;
  Time unread_counted_until_{0};
  Lateness lateness_;
};

}  // namespace causeway::wan_sim
