// The inside of the relay: ports and connections, and the timeline with what it does to them. One
// thread.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>

#include "wan-sim/relay/connection.h"
#include "wan-sim/relay/datagram_port.h"
#include "wan-sim/relay/link.h"
#include "wan-sim/relay/relay.h"
#include "wan-sim/scenario/timeline.h"

namespace causeway::wan_sim {

// Handlers of pending operations hold it, because Relay::stop cannot wait for them on their own
// thread.
class Relay::Core : public std::enable_shared_from_this<Relay::Core> {
 public:
  Core(asio::any_io_executor executor, Scenario scenario, RelayOptions options);

  asio::ip::tcp::endpoint open(const std::string& from, const std::string& to, Upstream upstream,
                               const asio::ip::tcp::endpoint& listen);
  asio::ip::udp::endpoint open_datagrams(const std::string& from, const std::string& to,
                                         const asio::ip::udp::endpoint& target,
                                         const asio::ip::udp::endpoint& listen);
  std::map<Pair, DirectedStats> stats() const;
  std::map<Pair, LinkState> links() const;
  Verdict verdict() const;
  void stop();

  void begin_timeline();
  // `at`: when it was due.
  void act(const Action& action, Time at);
  void command(const std::string& line);

 private:
  // What `open` was asked for, by region or host.
  struct End {
    std::string region;
    std::string host;  // empty: none with a rate of its own
  };
  struct Port {
    Pair pair;  // (from, to)
    Connection::Path forward, backward;
    Relay::Upstream upstream;
    asio::ip::tcp::acceptor acceptor;
    asio::steady_timer retry;
  };
  struct Open {
    Pair pair;  // as dialled
    std::shared_ptr<Connection> connection;
  };
  struct HostLinks {
    std::shared_ptr<Link> sends, receives;
  };

  std::optional<Engine> also() const;
  const std::shared_ptr<Link>& link(const Pair& pair) const;
  End end_of(const std::string& name) const;
  Connection::Path path(const End& from, const End& to) const;
  void accept(const std::shared_ptr<Port>& port);
  void accept_later(const std::shared_ptr<Port>& port, std::error_code error);
  void admit(Port& port, asio::ip::tcp::socket dialler);
  void reset_connections(const std::set<Pair>& dialled);
  void tell(WanEvent::Kind kind, const Pair& pair, std::uint64_t number, std::string text = {});

  void arm_timeline();
  void change(const Pair& pair, const LinkProfile& profile, Time at);
  void apply_fault(const Fault& fault, const std::vector<Pair>& pairs, Time at);
  void heal(const Heal& heal, const std::vector<Pair>& pairs, Time at);

  asio::any_io_executor executor_;
  Scenario scenario_;
  RelayOptions options_;
  Time begun_;
  Timeline timeline_;
  asio::steady_timer timeline_timer_;
  std::map<Pair, std::shared_ptr<Link>> links_;
  std::map<std::string, HostLinks> hosts_;
  std::vector<std::shared_ptr<Port>> ports_;
  std::map<Pair, std::shared_ptr<DatagramLink>> datagram_links_;
  std::vector<std::shared_ptr<DatagramPort>> datagram_ports_;
  std::map<std::uint64_t, Open> connections_;
  std::uint64_t next_connection_ = 0;
  std::set<Pair> refused_;  // as dialled
  bool stopped_ = false;
};

}  // namespace causeway::wan_sim
