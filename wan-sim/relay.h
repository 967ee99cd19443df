// A user-space TCP relay: a WAN between real sockets on one host, without privileges.
// docs/wan-sim.md has the model and its limits.
//
// One listening port per directed pair (from, to): region `from` dials it and reaches region `to`.
// Bytes are never dropped or altered: a link's rate, delay and stalls shape when they arrive. Rate
// is shared by all connections of a directed link; delay is one-way; jitter never reorders a
// connection's bytes; a new connection pays one round trip before it is established.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <asio/any_io_executor.hpp>
#include <asio/ip/tcp.hpp>

#include "wan-sim/scenario.h"

namespace causeway::wan_sim {

struct DirectedStats {
  std::uint64_t bytes = 0;        // delivered
  std::uint64_t connections = 0;  // opened, over the relay's life
  // Inside the relay now: queued, under way, or waiting for a slow receiver.
  std::uint64_t buffered_bytes = 0;
  std::chrono::microseconds lateness_p99{0};  // how late the relay itself released segments
};

// Threads: everything runs on the executor given, which must be one thread or a strand, and outlive
// the relay. An unknown region, or a pair without a link, throws std::system_error
// (Errc::bad_scenario).
class Relay {
 public:
  // Where `to` listens now, if it does.
  using Upstream = std::function<std::optional<asio::ip::tcp::endpoint>()>;

  Relay(asio::any_io_executor executor, Scenario scenario);
  ~Relay();

  // Opens a loopback port on which `from` reaches `to`. `upstream` is asked anew for every
  // connection; while it answers nothing, or nobody listens there, connections are refused. The
  // dialler sees that as a reset: its connect() has met only the relay.
  asio::ip::tcp::endpoint open(const std::string& from, const std::string& to, Upstream upstream);

  // Faults. cut: existing connections of the pair, whoever dialled, are reset and new ones refused
  // until healed.
  void cut(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  // Nothing enters the link for `length` in either direction; what is on its way arrives.
  // Connections stay open.
  void stall(const std::string& a, const std::string& b, std::chrono::microseconds length);

  std::map<std::pair<std::string, std::string>, DirectedStats> stats() const;
  // Resets all connections and closes the ports; nothing stays pending on the executor. Figures
  // stay.
  void stop();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::wan_sim
