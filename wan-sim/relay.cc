#include "wan-sim/relay.h"

#include <algorithm>
#include <memory>
#include <set>
#include <system_error>
#include <vector>

#include <spdlog/spdlog.h>
#include <asio/steady_timer.hpp>

#include "wan-sim/chance.h"
#include "wan-sim/connection.h"
#include "wan-sim/error.h"
#include "wan-sim/link.h"

namespace causeway::wan_sim {
namespace {

using asio::ip::tcp;
using Pair = std::pair<std::string, std::string>;

constexpr std::chrono::milliseconds kAcceptRetryDelay{100};

Pair unordered(const std::string& a, const std::string& b) {
  return std::minmax(a, b);
}

struct Port {
  Pair pair;  // (from, to)
  Relay::Upstream upstream;
  tcp::acceptor acceptor;
  asio::steady_timer retry;
};

// All of the relay. Handlers of pending operations hold it, because Relay::stop cannot wait for
// them on their own thread.
class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(asio::any_io_executor executor, const Scenario& scenario);

  tcp::endpoint open(const Pair& pair, Relay::Upstream upstream);
  void cut(const std::string& a, const std::string& b);
  void heal(const std::string& a, const std::string& b);
  void stall(const std::string& a, const std::string& b, std::chrono::microseconds length);
  std::map<Pair, DirectedStats> stats() const;
  void stop();

 private:
  struct Open {
    Pair pair;  // unordered
    std::shared_ptr<Connection> connection;
  };

  const std::shared_ptr<Link>& link(const Pair& pair) const;
  void accept(const std::shared_ptr<Port>& port);
  void accept_later(const std::shared_ptr<Port>& port, std::error_code error);
  void admit(Port& port, tcp::socket dialler);
  void reset_connections(const std::function<bool(const Open&)>& chosen);

  asio::any_io_executor executor_;
  std::uint64_t seed_;
  std::map<Pair, std::shared_ptr<Link>> links_;
  std::vector<std::shared_ptr<Port>> ports_;
  std::map<std::uint64_t, Open> connections_;
  std::uint64_t next_connection_ = 0;
  std::set<Pair> cut_;
  bool stopped_ = false;
};

std::uint64_t key_of_pair(std::uint64_t seed, const Pair& pair) {
  return mix(mix(seed, key_of(pair.first)), key_of(pair.second));
}

Core::Core(asio::any_io_executor executor, const Scenario& scenario)
    : executor_(std::move(executor)), seed_(scenario.seed) {
  for (const auto& [pair, profile] : scenario.links) {
    links_[pair] = std::make_shared<Link>(executor_, profile, key_of_pair(seed_, pair));
  }
}

const std::shared_ptr<Link>& Core::link(const Pair& pair) const {
  const auto found = links_.find(pair);
  if (found != links_.end()) return found->second;
  std::string known;
  for (const auto& [other, link] : links_) known += " " + other.first + ":" + other.second;
  throw std::system_error(Errc::bad_scenario, "no link from '" + pair.first + "' to '" +
                                                  pair.second + "'; the scenario has:" + known);
}

tcp::endpoint Core::open(const Pair& pair, Relay::Upstream upstream) {
  link(pair);
  link({pair.second, pair.first});
  const tcp::endpoint any_port(asio::ip::address_v4::loopback(), 0);
  ports_.push_back(
      std::make_shared<Port>(Port{pair, std::move(upstream), tcp::acceptor(executor_, any_port),
                                  asio::steady_timer(executor_)}));
  accept(ports_.back());
  return ports_.back()->acceptor.local_endpoint();
}

void Core::accept(const std::shared_ptr<Port>& port) {
  port->acceptor.async_accept(
      [self = shared_from_this(), port](std::error_code error, tcp::socket dialler) {
        if (self->stopped_) return;
        if (error) return self->accept_later(port, error);
        self->admit(*port, std::move(dialler));
        self->accept(port);
      });
}

// Out of descriptors, most likely: the backlog keeps the dialler, and asking again at once would
// only spin.
void Core::accept_later(const std::shared_ptr<Port>& port, std::error_code error) {
  spdlog::warn("wan-sim {}:{}: cannot accept a connection: {}; trying again in {} ms",
               port->pair.first, port->pair.second, error.message(), kAcceptRetryDelay.count());
  port->retry.expires_after(kAcceptRetryDelay);
  port->retry.async_wait([self = shared_from_this(), port](std::error_code cancelled) {
    if (!self->stopped_ && !cancelled) self->accept(port);
  });
}

void Core::admit(Port& port, tcp::socket dialler) {
  const auto& [from, to] = port.pair;
  const Pair pair = unordered(from, to);
  if (cut_.contains(pair)) return close_with_reset(dialler);
  const auto forward = link(port.pair);
  const std::uint64_t key = mix(key_of_pair(seed_, port.pair), forward->count_connection());
  const auto connection =
      std::make_shared<Connection>(std::move(dialler), forward, link({to, from}), key);
  const std::uint64_t id = next_connection_++;
  connections_[id] = {pair, connection};
  connection->start(port.upstream, [weak = weak_from_this(), id] {
    if (const auto self = weak.lock()) self->connections_.erase(id);
  });
}

void Core::reset_connections(const std::function<bool(const Open&)>& chosen) {
  std::erase_if(connections_, [&](const auto& entry) {
    if (!chosen(entry.second)) return false;
    entry.second.connection->reset();
    return true;
  });
}

void Core::cut(const std::string& a, const std::string& b) {
  link({a, b});
  const Pair pair = unordered(a, b);
  cut_.insert(pair);
  reset_connections([&](const Open& open) { return open.pair == pair; });
}

void Core::heal(const std::string& a, const std::string& b) {
  link({a, b});
  cut_.erase(unordered(a, b));
}

void Core::stall(const std::string& a, const std::string& b, std::chrono::microseconds length) {
  link({a, b})->stall(length);
  link({b, a})->stall(length);
}

std::map<Pair, DirectedStats> Core::stats() const {
  std::map<Pair, DirectedStats> stats;
  for (const auto& [pair, link] : links_) stats[pair] = link->stats();
  return stats;
}

void Core::stop() {
  stopped_ = true;
  for (const auto& port : ports_) {
    std::error_code ignored;
    port->acceptor.close(ignored);
    port->retry.cancel();
  }
  ports_.clear();
  reset_connections([](const Open&) { return true; });
  for (const auto& [pair, link] : links_) link->stop();
}

}  // namespace

class Relay::Implementation {
 public:
  Implementation(asio::any_io_executor executor, const Scenario& scenario)
      : core(std::make_shared<Core>(std::move(executor), scenario)) {}

  std::shared_ptr<Core> core;
};

Relay::Relay(asio::any_io_executor executor, Scenario scenario)
    : implementation_(std::make_unique<Implementation>(std::move(executor), scenario)) {}

Relay::~Relay() {
  stop();
}

tcp::endpoint Relay::open(const std::string& from, const std::string& to, Upstream upstream) {
  return implementation_->core->open({from, to}, std::move(upstream));
}

void Relay::cut(const std::string& a, const std::string& b) {
  implementation_->core->cut(a, b);
}

void Relay::heal(const std::string& a, const std::string& b) {
  implementation_->core->heal(a, b);
}

void Relay::stall(const std::string& a, const std::string& b, std::chrono::microseconds length) {
  implementation_->core->stall(a, b, length);
}

std::map<Pair, DirectedStats> Relay::stats() const {
  return implementation_->core->stats();
}

void Relay::stop() {
  implementation_->core->stop();
}

}  // namespace causeway::wan_sim
