// causeway wan-sim: the WAN alone, for any program.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>

#include "apps/commands.h"
#include "inter/mesh.h"
#include "wan-sim/relay.h"

namespace causeway::apps {
namespace {

using asio::ip::tcp;
using Pair = std::pair<std::string, std::string>;

constexpr std::chrono::seconds kTerminalInterval{1};
constexpr std::chrono::seconds kPlainInterval{5};
constexpr int kExitInterrupted = 130;

struct WanSimFlags {
  std::filesystem::path profile;
  std::vector<std::string> maps;
};

struct Route {
  Pair pair;  // (from, to)
  inter::Endpoint target;
};

Route parse_route(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::size_t colon = text.find(':');
  if (equals == std::string::npos || colon == std::string::npos || colon > equals) {
    throw CLI::ValidationError("--map", "'" + text + "' is not FROM:TO=HOST:PORT");
  }
  try {
    return {{text.substr(0, colon), text.substr(colon + 1, equals - colon - 1)},
            inter::parse_endpoint(text.substr(equals + 1))};
  } catch (const std::system_error& error) {
    throw CLI::ValidationError("--map", "'" + text + "': " + error.what());
  }
}

tcp::endpoint resolve(asio::io_context& context, const inter::Endpoint& endpoint) {
  std::error_code error;
  const auto found =
      tcp::resolver(context).resolve(endpoint.host, std::to_string(endpoint.port), error);
  if (error)
    throw CLI::ValidationError("--map", "cannot resolve " + endpoint.host + ": " + error.message());
  return *found.begin();
}

double mbit_s(double bytes_per_s) {
  return bytes_per_s * 8 / 1e6;
}

double milliseconds(std::chrono::microseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

// One line per directed link that a route uses, in either direction: redrawn in place on a
// terminal, repeated elsewhere.
class Figures {
 public:
  Figures(asio::io_context& context, const wan_sim::Relay& relay, std::vector<Pair> pairs)
      : timer_(context), relay_(relay), pairs_(std::move(pairs)), before_(relay.stats()) {
    std::sort(pairs_.begin(), pairs_.end());
    pairs_.erase(std::unique(pairs_.begin(), pairs_.end()), pairs_.end());
  }

  void start() {
    timer_.expires_after(interval_);
    timer_.async_wait([this](std::error_code error) {
      if (error) return;
      show();
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
          "%.2f ms\n",
          terminal_ ? "\033[K" : "", pair.first.c_str(), pair.second.c_str(),
          mbit_s(bytes / std::chrono::duration<double>(interval_).count()),
          static_cast<double>(link.bytes) / 1e6, static_cast<unsigned long long>(link.connections),
          static_cast<double>(link.buffered_bytes) / 1024, milliseconds(link.lateness_p99));
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
  bool shown_ = false;
};

void print_route(const Route& route, const tcp::endpoint& port, const wan_sim::LinkProfile& link) {
  std::printf("%s:%s  dial %s:%u  (to %s; %g Mbit/s, %g ms one-way, jitter %g ms)\n",
              route.pair.first.c_str(), route.pair.second.c_str(),
              port.address().to_string().c_str(), port.port(),
              inter::to_string(route.target).c_str(), mbit_s(link.rate_bytes_per_s),
              milliseconds(link.delay), milliseconds(link.jitter.scale));
}

int run_wan_sim(const WanSimFlags& flags) {
  const wan_sim::Scenario scenario = wan_sim::load_scenario(flags.profile);
  asio::io_context context(1);
  asio::signal_set signals(context, SIGINT, SIGTERM);
  wan_sim::Relay relay(context.get_executor(), scenario);
  std::vector<Pair> pairs;
  for (const std::string& map : flags.maps) {
    const Route route = parse_route(map);
    const tcp::endpoint target = resolve(context, route.target);
    const auto port = relay.open(route.pair.first, route.pair.second, [target] { return target; });
    print_route(route, port, scenario.links.at(route.pair));
    pairs.push_back(route.pair);
    pairs.emplace_back(route.pair.second, route.pair.first);
  }
  std::printf("Ctrl-C ends it.\n");
  std::fflush(stdout);
  Figures figures(context, relay, std::move(pairs));
  figures.start();
  signals.async_wait([&](std::error_code, int) { context.stop(); });
  context.run();
  return kExitInterrupted;
}

}  // namespace

void add_wan_sim(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("wan-sim", "A simulated WAN alone, for any program");
  auto flags = std::make_shared<WanSimFlags>();
  command
      ->add_option("profile", flags->profile, "Scenario file, such as configs/wan/quickstart.toml")
      ->required();
  command
      ->add_option("--map", flags->maps,
                   "FROM:TO=HOST:PORT, repeated: where TO listens as seen from FROM. Prints the "
                   "address that "
                   "FROM dials instead")
      ->required();
  command->callback([flags, &exit_code] { exit_code = run_wan_sim(*flags); });
}

}  // namespace causeway::apps
