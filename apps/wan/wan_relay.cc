// causeway wan-sim with the relay: ports, live figures, verdict.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>
#include <asio/steady_timer.hpp>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "apps/run/region/own_process.h"
#include "apps/run/region/signal_watch.h"
#include "apps/wan/wan_console.h"
#include "apps/wan/wan_map.h"
#include "apps/wan/wan_sim.h"
#include "inter/mesh/mesh.h"
#include "wan-sim/base/error.h"
#include "wan-sim/base/verdict.h"
#include "wan-sim/relay/relay.h"

namespace causeway::apps {
namespace {

using asio::ip::tcp;
using wan_sim::Pair;

constexpr std::chrono::seconds kTerminalInterval{1};
constexpr std::chrono::seconds kPlainInterval{5};

double mbit_s(double bytes_per_s) {
  return bytes_per_s * 8 / 1e6;
}

double milliseconds(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

std::string region_of(const wan_sim::Scenario& scenario, const std::string& name) {
  for (const auto& host : scenario.hosts) {
    if (host.name == name) return host.region;
  }
  return name;
}

std::string datagrams_text(const wan_sim::DirectedStats& link) {
  if (link.datagrams + link.datagrams_lost + link.datagrams_dropped == 0) return "";
  return fmt::format("  datagrams {}, lost {}, dropped {}", link.datagrams, link.datagrams_lost,
                     link.datagrams_dropped);
}

// One line per directed link that a route uses, in either direction: redrawn in place on a
// terminal, repeated elsewhere.
class Figures {
 public:
  Figures(asio::io_context& context, const wan_sim::Relay& relay, std::vector<Pair> pairs,
          std::function<void()> on_shown)
      : timer_(context),
        relay_(relay),
        pairs_(std::move(pairs)),
        before_(relay.stats()),
        on_shown_(std::move(on_shown)) {
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  }

  void start() {
    timer_.expires_after(interval_);
    timer_.async_wait([this](std::error_code error) {
      if (error) return;
      show();
      on_shown_();
      start();
    });
  }

 private:
  void show() {
    const auto now = relay_.stats();
    if (terminal_ && shown_) std::printf("\033[%zuA", pairs_.size());
    for (const Pair& pair : pairs_) {
      const auto& link = now.at(pair);
      const double bytes = static_cast<double>(link.bytes - before_.at(pair).bytes);
      std::printf(
          "%s%s:%s  %.2f Mbit/s  delivered %.1f MB  connections %llu  buffered %.0f KiB  late p99 "
          "%.2f ms%s\n",
          terminal_ ? "\033[K" : "", pair.first.c_str(), pair.second.c_str(),
          mbit_s(bytes / std::chrono::duration<double>(interval_).count()),
          static_cast<double>(link.bytes) / 1e6, static_cast<unsigned long long>(link.connections),
          static_cast<double>(link.buffered_bytes) / 1024, milliseconds(link.lateness_p99),
          datagrams_text(link).c_str());
    }
    std::fflush(stdout);
    shown_ = true;
    before_ = now;
  }

  bool terminal_ = isatty(STDOUT_FILENO) != 0;
  std::chrono::seconds interval_ = terminal_ ? kTerminalInterval : kPlainInterval;
  asio::steady_timer timer_;
  const wan_sim::Relay& relay_;
  std::vector<Pair> pairs_;
  std::map<Pair, wan_sim::DirectedStats> before_;
  std::function<void()> on_shown_;
  bool shown_ = false;
};

void print_map(const WanMap& map, const std::string& port, const wan_sim::LinkProfile& link) {
  const std::string congestion(wan_sim::kCongestions[static_cast<std::size_t>(link.congestion)]);
  std::printf(
      "%s:%s  %s %s  (to %s; %g Mbit/s, %g ms one-way, jitter %g ms, loss %g, "
      "congestion control %s)\n",
      map.from.c_str(), map.to.c_str(), map.udp ? "send UDP to" : "dial", port.c_str(),
      inter::to_string(map.target).c_str(), mbit_s(link.rate_bytes_per_s), milliseconds(link.delay),
      milliseconds(link.jitter.scale), link.loss.mean(), congestion.c_str());
}

class RelayCommand {
 public:
  RelayCommand(const WanSimFlags& flags, const wan_sim::Scenario& scenario)
      : scenario_(scenario),
        signals_(context_.get_executor()),
        end_(context_),
        console_(flags, scenario, context_.get_executor()) {
    std::vector<WanMap> maps;
    for (const std::string& map : flags.maps) maps.push_back(parse_wan_map(map));
    check_maps_differ(maps);
    relay_.emplace(
        context_.get_executor(), scenario,
        wan_sim::RelayOptions{.on_event = console_.on_event(),
                              .datagrams_only = std::ranges::all_of(maps, &WanMap::udp)});
    console_.attach(*relay_);
    for (const std::string& region : scenario.regions) console_.add(WanRegion{region, "", ""});
    for (const WanMap& map : maps) open(map);
    console_.answer();
    if (flags.seconds) {
      end_.expires_after(std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * *flags.seconds)));
      end_.async_wait([this](std::error_code cancelled) {
        if (!cancelled) finish(0);
      });
    }
  }

  int run() {
    std::printf("Ctrl-C ends it.\n");
    std::fflush(stdout);
    Figures figures(context_, *relay_, pairs_, [this] { console_.record_figures(); });
    figures.start();
    run::outlive_readers();
    signals_.wait([this](run::SignalWatch::Wish) { finish(kExitInterrupted); });
    wan_sim::make_this_thread_punctual();
    context_.run();
    const wan_sim::Verdict verdict = console_.judge();
    std::printf("%s\n", wan_sim::to_string(verdict).c_str());
    console_.record_verdict(verdict);
    return exit_code_ == 0 && !verdict.valid() ? kExitInvalid : exit_code_;
  }

 private:
  void open(const WanMap& map) {
    const std::string port = listen(map);
    const Pair pair{region_of(scenario_, map.from), region_of(scenario_, map.to)};
    print_map(map, port, scenario_.links.at(pair));
    pairs_.push_back(pair);
    pairs_.emplace_back(pair.second, pair.first);
    console_.add(WanPort{map.udp ? "udp" : "tcp", map.from, map.to, port,
                         inter::to_string(map.target), pair});
  }
  std::string listen(const WanMap& map) {
    const std::vector<tcp::endpoint> targets = resolve_for("--map", map.target);
    const tcp::endpoint where = resolve_for("--map", map.listen).front();
    try {
      if (map.udp)
        return to_text(relay_->open_datagrams(map.from, map.to, datagrams(ipv4_first(targets)),
                                              datagrams(where)));
      return to_text(relay_->open(
          map.from, map.to, [targets] { return targets; }, where));
    } catch (const std::system_error& error) {
      if (error.code() == wan_sim::Errc::bad_scenario) throw;
      inter::throw_cannot_listen(map.listen, error.code());
    }
  }
  // Nobody tells a sender of datagrams that it has the wrong one of two addresses. Who listens at
  // all of them hears either, and more listen at IPv4's alone than at the other alone.
  static tcp::endpoint ipv4_first(const std::vector<tcp::endpoint>& targets) {
    const auto found = std::ranges::find_if(
        targets, [](const tcp::endpoint& one) { return one.address().is_v4(); });
    return found == targets.end() ? targets.front() : *found;
  }
  static asio::ip::udp::endpoint datagrams(const tcp::endpoint& endpoint) {
    return {endpoint.address(), endpoint.port()};
  }
  void finish(int exit_code) {
    exit_code_ = exit_code;
    context_.stop();
  }

  const wan_sim::Scenario& scenario_;
  asio::io_context context_{1};
  run::SignalWatch signals_;
  asio::steady_timer end_;
  WanConsole console_;  // the relay tells it what happens until its end
  std::optional<wan_sim::Relay> relay_;
  std::vector<Pair> pairs_;
  int exit_code_ = 0;
};

}  // namespace

int run_wan_relay(const WanSimFlags& flags, const wan_sim::Scenario& scenario) {
  if (flags.maps.empty()) {
    throw CLI::ValidationError("--map",
                               "is missing; the relay needs at least one FROM:TO=HOST:PORT");
  }
  run::raise_open_files_limit();  // each connection has two
  return RelayCommand(flags, scenario).run();
}

}  // namespace causeway::apps
