#include "wan-sim/relay/relay.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <system_error>
#include <vector>

#include <spdlog/spdlog.h>

#include "wan-sim/base/chance.h"
#include "wan-sim/base/error.h"
#include "wan-sim/relay/relay_core.h"
#include "wan-sim/scenario/timeline.h"

namespace causeway::wan_sim {
namespace {

using asio::ip::tcp;

constexpr std::chrono::milliseconds kAcceptRetryDelay{100};

double shortfall_of(const DirectedStats& stats) {
  return std::max(share_missed(stats.missed_bytes, stats.bytes),
                  share_missed(stats.datagrams_missed,
                               stats.datagrams + stats.datagrams_lost + stats.datagrams_dropped));
}

std::shared_ptr<Link> host_link(const asio::any_io_executor& executor, const Host& host) {
  LinkProfile profile;
  profile.rate_bytes_per_s = host.rate_bytes_per_s;
  return std::make_shared<Link>(executor, profile, key_of(host.name));
}

Pair reversed(const Pair& pair) {
  return {pair.second, pair.first};
}

}  // namespace

Relay::Core::Core(asio::any_io_executor executor, Scenario scenario, RelayOptions options)
    : executor_(std::move(executor)),
      scenario_(std::move(scenario)),
      options_(std::move(options)),
      begun_(Link::now()),
      timeline_(scenario_),
      timeline_timer_(executor_) {
  require_honoured(scenario_, Engine::relay, also());
  if (!options_.on_process) refuse_process_actions(scenario_);
  for (const auto& [pair, profile] : scenario_.links) {
    auto& made = links_[pair] =
        std::make_shared<Link>(executor_, profile, key_of_link(scenario_.seed, pair));
    datagram_links_[pair] =
        std::make_shared<DatagramLink>(executor_, profile, key_of_link(scenario_.seed, pair));
    const auto back = scenario_.links.find(reversed(pair));
    if (back != scenario_.links.end()) made->set_return_delay(back->second.delay);
    if (!options_.on_decision) continue;
    made->observe([on_decision = options_.on_decision, pair = pair](const Decision& decision) {
      on_decision(pair, decision);
    });
  }
  for (const Host& host : scenario_.hosts) {
    hosts_[host.name] = {host_link(executor_, host), host_link(executor_, host)};
  }
}

const std::shared_ptr<Link>& Relay::Core::link(const Pair& pair) const {
  const auto found = links_.find(pair);
  if (found != links_.end()) return found->second;
  std::string known;
  for (const auto& [other, link] : links_) known += " " + other.first + ":" + other.second;
  throw std::system_error(Errc::bad_scenario, "no link from '" + pair.first + "' to '" +
                                                  pair.second + "'; the scenario has:" + known);
}

Relay::Core::End Relay::Core::end_of(const std::string& name) const {
  for (const Host& host : scenario_.hosts) {
    if (host.name == name) return {host.region, name};
  }
  return {name, ""};
}

Connection::Path Relay::Core::path(const End& from, const End& to) const {
  Connection::Path path;
  path.link = link({from.region, to.region});
  if (!from.host.empty()) path.stages.push_back(hosts_.at(from.host).sends);
  path.stages.push_back(path.link);
  if (!to.host.empty()) path.stages.push_back(hosts_.at(to.host).receives);
  return path;
}

tcp::endpoint Relay::Core::open(const std::string& from, const std::string& to, Upstream upstream,
                                const tcp::endpoint& listen) {
  assert(!options_.datagrams_only);
  const End near = end_of(from), far = end_of(to);
  ports_.push_back(std::make_shared<Port>(Port{{near.region, far.region},
                                               path(near, far),
                                               path(far, near),
                                               std::move(upstream),
                                               tcp::acceptor(executor_, listen),
                                               asio::steady_timer(executor_)}));
  accept(ports_.back());
  return ports_.back()->acceptor.local_endpoint();
}

asio::ip::udp::endpoint Relay::Core::open_datagrams(const std::string& from, const std::string& to,
                                                    const asio::ip::udp::endpoint& target,
                                                    const asio::ip::udp::endpoint& listen) {
  for (const std::string& name : {from, to}) {
    if (end_of(name).host.empty()) continue;
    throw std::system_error(Errc::bad_scenario, "host '" + name +
                                                    "' has a rate of its own, which shapes TCP "
                                                    "alone; name its region for UDP");
  }
  const Pair pair{from, to};
  link(pair);
  link(reversed(pair));
  const auto is_refused = [weak = weak_from_this(), pair] {
    const auto self = weak.lock();
    return !self || self->refused_.contains(pair);
  };
  datagram_ports_.push_back(std::make_shared<DatagramPort>(
      executor_, DatagramPort::Route{key_of_link(scenario_.seed, pair), listen, target,
                                     datagram_links_.at(pair), datagram_links_.at(reversed(pair)),
                                     is_refused}));
  datagram_ports_.back()->start();
  return datagram_ports_.back()->listens();
}

// The engine whose settings are honoured beside the relay's own.
std::optional<Engine> Relay::Core::also() const {
  return options_.datagrams_only ? std::optional(Engine::packet) : std::nullopt;
}

void Relay::Core::accept(const std::shared_ptr<Port>& port) {
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
void Relay::Core::accept_later(const std::shared_ptr<Port>& port, std::error_code error) {
  spdlog::warn("wan-sim {}:{}: cannot accept a connection: {}; trying again in {} ms",
               port->pair.first, port->pair.second, error.message(), kAcceptRetryDelay.count());
  port->retry.expires_after(kAcceptRetryDelay);
  port->retry.async_wait([self = shared_from_this(), port](std::error_code cancelled) {
    if (!self->stopped_ && !cancelled) self->accept(port);
  });
}

void Relay::Core::admit(Port& port, tcp::socket dialler) {
  if (refused_.contains(port.pair)) {
    tell(WanEvent::Kind::refused, port.pair, 0);
    return close_with_reset(dialler);
  }
  const std::uint64_t number = port.forward.link->count_connection();
  const std::uint64_t key = key_of_connection(scenario_.seed, port.pair, number);
  const auto connection =
      std::make_shared<Connection>(std::move(dialler), port.forward, port.backward, key);
  const std::uint64_t id = next_connection_++;
  connections_[id] = {port.pair, connection};
  tell(WanEvent::Kind::opened, port.pair, number);
  connection->start(port.upstream, [weak = weak_from_this(), id, pair = port.pair, number] {
    const auto self = weak.lock();
    if (!self) return;
    self->connections_.erase(id);
    self->tell(WanEvent::Kind::closed, pair, number);
  });
}

void Relay::Core::reset_connections(const std::set<Pair>& dialled) {
  std::erase_if(connections_, [&](const auto& entry) {
    if (!dialled.contains(entry.second.pair)) return false;
    entry.second.connection->reset();
    return true;
  });
}

void Relay::Core::tell(WanEvent::Kind kind, const Pair& pair, std::uint64_t number,
                       std::string text) {
  if (options_.on_event) {
    options_.on_event({kind, Link::now() - begun_, pair, number, std::move(text)});
  }
}

std::map<Pair, DirectedStats> Relay::Core::stats() const {
  std::map<Pair, DirectedStats> stats;
  for (const auto& port : datagram_ports_) port->count_missed();
  for (const auto& [pair, link] : links_) {
    stats[pair] = link->stats();
    datagram_links_.at(pair)->add_to(stats[pair]);
  }
  return stats;
}

std::map<Pair, LinkState> Relay::Core::links() const {
  std::map<Pair, LinkState> links;
  for (const auto& [pair, link] : links_) {
    links[pair] = {link->profile(), link->is_black_hole(), refused_.contains(pair)};
  }
  return links;
}

Verdict Relay::Core::verdict() const {
  Verdict verdict;
  verdict.lateness_max = scenario_.lateness_max;
  for (const auto& [pair, stats] : this->stats()) {
    if (stats.releases < kReleasesMin) continue;
    verdict.lateness_p99 = std::max(verdict.lateness_p99, stats.lateness_p99);
    verdict.shortfall = std::max(verdict.shortfall, shortfall_of(stats));
  }
  return verdict;
}

void Relay::Core::stop() {
  stopped_ = true;
  timeline_timer_.cancel();
  for (const auto& port : ports_) {
    std::error_code ignored;
    port->acceptor.close(ignored);
    port->retry.cancel();
  }
  ports_.clear();
  for (const auto& port : datagram_ports_) port->stop();
  datagram_ports_.clear();
  for (auto& [id, open] : connections_) open.connection->reset();
  connections_.clear();
  for (const auto& [pair, link] : links_) link->stop();
  for (const auto& [pair, link] : datagram_links_) link->stop();
  for (const auto& [name, host] : hosts_) {
    host.sends->stop();
    host.receives->stop();
  }
}

Relay::Relay(asio::any_io_executor executor, Scenario scenario, RelayOptions options)
    : core_(std::make_shared<Core>(std::move(executor), std::move(scenario), std::move(options))) {
  core_->begin_timeline();
}

Relay::~Relay() {
  stop();
}

tcp::endpoint Relay::open(const std::string& from, const std::string& to, Upstream upstream,
                          const tcp::endpoint& listen) {
  return core_->open(from, to, std::move(upstream), listen);
}

asio::ip::udp::endpoint Relay::open_datagrams(const std::string& from, const std::string& to,
                                              const asio::ip::udp::endpoint& target,
                                              const asio::ip::udp::endpoint& listen) {
  return core_->open_datagrams(from, to, target, listen);
}

void Relay::act(const Action& action) {
  core_->act(action, Link::now());
}

void Relay::command(const std::string& line) {
  core_->command(line);
}

void Relay::cut(const std::string& a, const std::string& b) {
  const std::vector<Pair> both{{a, b}, {b, a}};
  act({both, Fault{FaultKind::refuse}, "cut"});
  act({both, Fault{FaultKind::reset}, "cut"});
}

void Relay::heal(const std::string& a, const std::string& b) {
  act({{{a, b}, {b, a}}, Heal{}, "heal"});
}

void Relay::stall(const std::string& a, const std::string& b, std::chrono::microseconds length) {
  act({{{a, b}, {b, a}}, Fault{FaultKind::stall, length}, "stall"});
}

std::map<Pair, DirectedStats> Relay::stats() const {
  return core_->stats();
}

std::map<Pair, LinkState> Relay::links() const {
  return core_->links();
}

Verdict Relay::verdict() const {
  return core_->verdict();
}

void Relay::stop() {
  core_->stop();
}

void Relay::Core::begin_timeline() {
  arm_timeline();
}

void Relay::Core::arm_timeline() {
  const auto next = timeline_.next();
  if (!next) return;
  timeline_timer_.expires_at(std::chrono::steady_clock::time_point(begun_ + *next));
  timeline_timer_.async_wait([weak = weak_from_this()](std::error_code cancelled) {
    const auto self = weak.lock();
    if (!self || cancelled || self->stopped_) return;
    for (const TimedAction& due : self->timeline_.take(Link::now() - self->begun_)) {
      self->act(due.action, self->begun_ + due.at);
    }
    self->arm_timeline();
  });
}

void Relay::Core::command(const std::string& line) {
  const auto actions = parse_action(scenario_, line, Engine::relay, also());
  if (!options_.on_process) refuse_process_actions(actions);
  const Time now = Link::now();
  tell(WanEvent::Kind::commanded, {}, 0, line);
  timeline_.add(actions, now - begun_);
  for (const TimedAction& due : timeline_.take(now - begun_)) act(due.action, begun_ + due.at);
  arm_timeline();
}

void Relay::Core::act(const Action& action, Time at) {
  for (const Pair& pair : action.links) link(pair);  // refused as a whole, or done
  if (!action.text.empty()) tell(WanEvent::Kind::acted, {}, 0, action.text);
  if (const auto* fault = std::get_if<Fault>(&action.what)) {
    return apply_fault(*fault, action.links, at);
  }
  if (const auto* healed = std::get_if<Heal>(&action.what)) return heal(*healed, action.links, at);
  if (const auto* process = std::get_if<ProcessAction>(&action.what)) {
    if (options_.on_process) return options_.on_process(*process);
    refuse_process_actions({{Time{0}, action}});
  }
  for (const Pair& pair : action.links) {
    const auto profile = changed_profile(action, link(pair)->profile(), scenario_.links.at(pair));
    change(pair, *profile, at);
  }
}

void Relay::Core::change(const Pair& pair, const LinkProfile& profile, Time at) {
  link(pair)->change(profile, at);
  datagram_links_.at(pair)->change(profile, at);
  const auto back = links_.find({pair.second, pair.first});
  if (back != links_.end()) back->second->set_return_delay(profile.delay);
}

void Relay::Core::apply_fault(const Fault& fault, const std::vector<Pair>& pairs, Time at) {
  if (fault.kind == FaultKind::reset) return reset_connections({pairs.begin(), pairs.end()});
  for (const Pair& pair : pairs) {
    Link& target = *link(pair);
    switch (fault.kind) {
      case FaultKind::black_hole:
        target.black_hole(true, at);
        datagram_links_.at(pair)->black_hole(true);
        break;
      case FaultKind::stall:
        target.stall(at, fault.length);
        datagram_links_.at(pair)->stall(at, fault.length);
        break;
      case FaultKind::refuse:
        refused_.insert(pair);
        break;
      case FaultKind::slow_close:
        target.faults().slow_close = fault.length;
        break;
      case FaultKind::corrupt:
        target.faults().corrupt_from(fault.bytes);
        break;
      case FaultKind::kill_after:
        target.faults().kill_after(fault.bytes);
        break;
      case FaultKind::reset:
        break;
    }
  }
}

void Relay::Core::heal(const Heal& healed, const std::vector<Pair>& pairs, Time at) {
  const auto ends = [&](FaultKind kind) { return !healed.kind || healed.kind == kind; };
  for (const Pair& pair : pairs) {
    Link& target = *link(pair);
    if (ends(FaultKind::black_hole)) {
      target.black_hole(false, at);
      datagram_links_.at(pair)->black_hole(false);
    }
    if (ends(FaultKind::slow_close)) target.faults().slow_close = Time{0};
    if (ends(FaultKind::refuse)) refused_.erase(pair);
  }
}

}  // namespace causeway::wan_sim
