#include "apps/run/simulate/wan.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>

#include "apps/run/config/config.h"
#include "wan-sim/packet/packet_wan.h"
#include "wan-sim/relay/relay.h"

namespace causeway::run {
namespace {

const inter::Endpoint kAnyLoopbackPort{"127.0.0.1", 0};

wan_sim::Scenario load_for(const std::filesystem::path& file,
                           const std::vector<std::string>& regions) {
  if (file.empty()) {
    throw ConfigError(
        "wan.profile: is missing; set it to a scenario such as configs/wan/quickstart.toml, or "
        "give "
        "--wan none");
  }
  wan_sim::Scenario scenario = wan_sim::load_scenario(file);
  for (const std::string& region : regions) {
    if (std::find(scenario.regions.begin(), scenario.regions.end(), region) ==
        scenario.regions.end()) {
      throw ConfigError(file.string() + ": has no region '" + region +
                        "'; the scenario of a run names all its regions");
    }
  }
  return scenario;
}

class RelayWan : public Wan {
 public:
  using PortOf = std::function<std::optional<std::uint16_t>(const std::string&)>;

  RelayWan(wan_sim::Scenario scenario, const std::vector<std::string>& regions,
           const PortOf& port_of, OnProcess on_process)
      : work_(context_.get_executor()),
        relay_(std::make_unique<wan_sim::Relay>(
            context_.get_executor(), std::move(scenario),
            wan_sim::RelayOptions{.on_process = std::move(on_process)})) {
    for (const std::string& from : regions) {
      for (const std::string& to : regions) {
        if (from != to) open(from, to, port_of);
      }
    }
    thread_ = std::thread([this] { context_.run(); });
  }
  ~RelayWan() override { stop(); }

  inter::Endpoint listen(const std::string&) const override { return kAnyLoopbackPort; }
  inter::Endpoint address(const std::string& from, const std::string& to) const override {
    return addresses_.at({from, to});
  }
  int network_namespace(const std::string&) const override { return -1; }

  std::optional<wan_sim::Verdict> stop_and_judge() override {
    stop();
    return relay_->verdict();
  }

 private:
  void open(const std::string& from, const std::string& to, const PortOf& port_of) {
    const auto upstream = [to, port_of]() -> std::optional<asio::ip::tcp::endpoint> {
      const auto port = port_of(to);
      if (!port) return std::nullopt;
      return asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), *port);
    };
    const asio::ip::tcp::endpoint opened = relay_->open(from, to, upstream);
    addresses_[{from, to}] = {opened.address().to_string(), opened.port()};
  }

  void stop() {
    if (!thread_.joinable()) return;
    asio::post(context_, [this] {
      relay_->stop();
      work_.reset();
    });
    thread_.join();
  }

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::unique_ptr<wan_sim::Relay> relay_;
  std::map<std::pair<std::string, std::string>, inter::Endpoint> addresses_;
  std::thread thread_;
};

class PacketWan : public Wan {
 public:
  PacketWan(wan_sim::Scenario scenario, OnProcess on_process)
      : wan_(std::move(scenario), {.on_process = std::move(on_process), .named = false}),
        thread_([this] { wan_.run([this] { return stopped_.load(); }); }) {}
  ~PacketWan() override { stop(); }

  inter::Endpoint listen(const std::string& region) const override {
    return {wan_.namespaces().address(region), kPort};
  }
  inter::Endpoint address(const std::string&, const std::string& to) const override {
    return listen(to);
  }
  int network_namespace(const std::string& region) const override {
    return wan_.namespaces().descriptor(region);
  }
  std::optional<wan_sim::Verdict> stop_and_judge() override {
    stop();
    return wan_.verdict();
  }

 private:
  static constexpr std::uint16_t kPort = 7000;  // nobody else listens in these networks

  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::atomic<bool> stopped_ = false;
  wan_sim::PacketWan wan_;
  std::thread thread_;
};

class DirectWan : public Wan {
 public:
  explicit DirectWan(const std::vector<std::string>& regions) {
    asio::io_context context(1);
    std::vector<asio::ip::tcp::acceptor> held;  // together, so that they differ
    for (const std::string& region : regions) {
      held.emplace_back(context, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
      addresses_[region] = {"127.0.0.1", held.back().local_endpoint().port()};
    }
  }
  inter::Endpoint listen(const std::string& region) const override { return addresses_.at(region); }
  inter::Endpoint address(const std::string&, const std::string& to) const override {
    return addresses_.at(to);
  }
  int network_namespace(const std::string&) const override { return -1; }
  std::optional<wan_sim::Verdict> stop_and_judge() override { return std::nullopt; }

 private:
  std::map<std::string, inter::Endpoint> addresses_;
};

}  // namespace

std::unique_ptr<Wan> make_relay_wan(
    const std::filesystem::path& scenario, const std::vector<std::string>& regions,
    std::function<std::optional<std::uint16_t>(const std::string&)> port_of, OnProcess on_process) {
  return std::make_unique<RelayWan>(load_for(scenario, regions), regions, port_of,
                                    std::move(on_process));
}

std::unique_ptr<Wan> make_packet_wan(const std::filesystem::path& scenario,
                                     const std::vector<std::string>& regions,
                                     OnProcess on_process) {
  wan_sim::Scenario loaded = load_for(scenario, regions);
  try {
    return std::make_unique<PacketWan>(std::move(loaded), std::move(on_process));
  } catch (const std::system_error& error) {
    if (error.code().category() != std::generic_category()) throw;  // the scenario's fault
    throw ConfigError(std::string("--wan packet: ") + error.what() +
                      "; --wan relay needs no privileges");
  }
}

std::unique_ptr<Wan> make_direct_wan(const std::vector<std::string>& regions) {
  return std::make_unique<DirectWan>(regions);
}

}  // namespace causeway::run
