// A directed link in real time, for datagrams: its rules, a timer, and figures.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/steady_timer.hpp>

#include "wan-sim/base/verdict.h"
#include "wan-sim/link/packet_link.h"
#include "wan-sim/relay/relay.h"

namespace causeway::wan_sim {

// One thread. What waits or is under way is bounded by the link: rate x delay and its queue.
class DatagramLink : public std::enable_shared_from_this<DatagramLink> {
 public:
  // False: this machine could not hand it on.
  using Deliver = std::function<bool(const std::string& datagram)>;

  DatagramLink(const asio::any_io_executor& executor, const LinkProfile& profile,
               std::uint64_t key);

  // `deliver` is called once for each copy that arrives; not at all if it is lost.
  void send(PacketLink::Flow& flow, std::string datagram, Deliver deliver, Time now);
  void stop();

  void change(const LinkProfile& profile, Time at) { rules_.change(profile, at); }
  void stall(Time at, Time length) { rules_.stall(at, length); }
  void black_hole(bool on) { rules_.black_hole(on); }

  std::uint64_t count_flow() { return ++flows_; }  // its number
  void count_refused() { ++refused_; }
  void count_missed(std::uint64_t datagrams) { missed_ += datagrams; }
  // To the figures of the link's connections.
  void add_to(DirectedStats& stats) const;

 private:
  struct Leaving {
    Time at;
    std::uint64_t sequence;
    std::shared_ptr<const std::string> datagram;
    Deliver deliver;
    bool operator>(const Leaving& other) const {
      return at != other.at ? at > other.at : sequence > other.sequence;
    }
  };
  void wake_in_time();
  void on_time();

  PacketLink rules_;
  asio::steady_timer timer_;
  std::optional<Time> wake_at_;
  std::priority_queue<Leaving, std::vector<Leaving>, std::greater<>> leaving_;
  std::uint64_t next_sequence_ = 0;
  std::uint64_t flows_ = 0, delivered_ = 0, delivered_bytes_ = 0, buffered_bytes_ = 0;
  std::uint64_t refused_ = 0, missed_ = 0;
  Lateness lateness_;
};

}  // namespace causeway::wan_sim
