// A user-space TCP relay: a WAN between real sockets on one host, without privileges.
// docs/wan-scenarios.md has the model, docs/wan-sim.md its limits.
//
// One listening port per directed pair (from, to): region or host `from` dials it and reaches `to`.
// Bytes are never dropped, and altered only by a fault that says so: a link's rate, delay, loss and
// congestion control shape when they arrive. Rate is shared by all connections of a directed link,
// and by all of a host that has one of its own; delay is one-way; jitter never reorders a
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
#include <vector>

#include <asio/any_io_executor.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>

#include "wan-sim/base/verdict.h"
#include "wan-sim/link/link_rules.h"
#include "wan-sim/live/live_wan.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

struct RelayOptions {
  // Whoever runs the regions' processes. Without one a scenario with such actions is refused.
  std::function<void(const ProcessAction&)> on_process{};
  std::function<void(const WanEvent&)> on_event{};
  // Every draw of chance that a seed repeats, with its link and the number of its flow there.
  std::function<void(const Pair&, const Decision&)> on_decision{};
  // Only open_datagrams is called: then packets may be reordered, duplicated and spoilt too, which
  // a stream cannot be.
  bool datagrams_only = false;
};

inline asio::ip::tcp::endpoint any_loopback_port() {
  return {asio::ip::address_v4::loopback(), 0};
}

// Threads: everything runs on the executor given, which must be one thread or a strand, and outlive
// the relay. An unknown region, or a pair without a link, throws std::system_error
// (Errc::bad_scenario), and so does a scenario that this engine cannot honour.
class Relay : public LiveWan {
 public:
  // Where somebody listens: addresses to try one after the other, as a name may have several. One
  // address, or one that may be missing, becomes such a list by itself: that is what programs that
  // use the installed header give.
  struct Targets {
    Targets(std::vector<asio::ip::tcp::endpoint> all) : endpoints(std::move(all)) {}
    Targets(const asio::ip::tcp::endpoint& one) : endpoints{one} {}
    Targets(const std::optional<asio::ip::tcp::endpoint>& one) {
      if (one) endpoints = {*one};
    }
    std::vector<asio::ip::tcp::endpoint> endpoints;  // none: nobody does now
  };
  // Where `to` listens now.
  using Upstream = std::function<Targets()>;

  // The scenario's timeline begins now.
  Relay(asio::any_io_executor executor, Scenario scenario, RelayOptions options = {});
  ~Relay() override;

  // Opens a port on which `from` reaches `to`, by default any free one of 127.0.0.1. `upstream` is
  // asked anew for every connection; while it answers nothing, or nobody listens there, connections
  // are refused. The dialler sees that as a reset: its connect() has met only the relay. Throws
  // std::system_error with the system's own code if it cannot listen there.
  asio::ip::tcp::endpoint open(const std::string& from, const std::string& to, Upstream upstream,
                               const asio::ip::tcp::endpoint& listen = any_loopback_port());

  // The same for UDP. The datagrams of each source are a flow until they pause for two minutes;
  // what `target` answers goes back to that source. A host with a rate of its own is refused.
  asio::ip::udp::endpoint open_datagrams(const std::string& from, const std::string& to,
                                         const asio::ip::udp::endpoint& target,
                                         const asio::ip::udp::endpoint& listen);

  // Whatever a timeline can say, now.
  void act(const Action& action);

  // Faults by name. cut: existing connections of the pair, whoever dialled, are reset and new ones
  // refused until healed.
  void cut(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  // Nothing enters the link for `length` in either direction; what is on its way arrives.
  // Connections stay open.
  void stall(const std::string& a, const std::string& b, std::chrono::microseconds length);

  // As LiveWan has them.
  Engine engine() const override { return Engine::relay; }
  void command(const std::string& line) override;
  std::map<Pair, DirectedStats> stats() const override;
  std::map<Pair, LinkState> links() const override;
  Verdict verdict() const override;
  // Resets all connections and closes the ports; nothing stays pending on the executor. Figures
  // stay.
  void stop();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace causeway::wan_sim
