#include "apps/wan/wan_console.h"

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

#include <asio/ip/address.hpp>

#include "apps/run/region/output_file.h"
#include "wan-sim/base/error.h"

namespace causeway::apps {
namespace {

inter::Endpoint http_address(const std::string& text) {
  const bool port_alone = text.find(':') == std::string::npos;
  return inter::parse_endpoint(port_alone ? "127.0.0.1:" + text : text);
}

bool is_loopback(const std::string& host) {
  std::error_code no_address;
  const auto number = asio::ip::make_address(host, no_address);
  return host == "localhost" || (!no_address && number.is_loopback());
}

}  // namespace

WanConsole::WanConsole(const WanSimFlags& flags, const wan_sim::Scenario& scenario,
                       asio::any_io_executor executor)
    : flags_(flags), scenario_(scenario), executor_(std::move(executor)) {
  if (!flags.control.empty()) run::check_place_of_file("--control", flags.control);
  if (!flags.record.empty()) {
    run::check_place_of_file("--record", flags.record);
    recording_.emplace(flags.record, scenario);
  }
  if (!flags.http.empty()) api_.emplace(http_address(flags.http));
}

std::function<void(const wan_sim::WanEvent&)> WanConsole::on_event() {
  if (!recording_) return nullptr;
  return [this](const wan_sim::WanEvent& event) { recording_->add(event); };
}

void WanConsole::attach(wan_sim::LiveWan& wan, wan_sim::PacketCapture* capture) {
  wan_ = &wan;
  capture_ = capture;
  begun_ = std::chrono::steady_clock::now();
}

void WanConsole::answer() {
  if (!flags_.control.empty()) {
    control_.emplace(executor_, flags_.control,
                     [this](const std::string& line) { return answer_line(line); });
  }
  if (!api_) return;
  api_->start({.executor = executor_,
               .engine = wan_->engine(),
               .look = [this] { return look(); },
               .command = [this](const std::string& line) { wan_->command(line); },
               .capture = [this](bool on) { capture(on); }});
  const std::string host = http_address(flags_.http).host;
  std::printf("http://%s  shows the links and takes commands\n",
              inter::to_string({host, api_->port()}).c_str());
  if (!is_loopback(host))
    std::printf("Anybody who reaches this port can change the WAN: there is no password.\n");
}

std::string WanConsole::answer_line(const std::string& line) {
  if (line == "stats") return wan_sim::to_json(wan_->stats());
  wan_->command(line);
  return "ok";
}

WanFigures WanConsole::look() const {
  WanFigures figures{.name = scenario_.name,
                     .t_s = wan_sim::in_seconds(since_start()),
                     .links = wan_->links(),
                     .stats = wan_->stats(),
                     .verdict = judge(),
                     .ports = ports_,
                     .regions = regions_,
                     .capture = {}};
  if (capture_) figures.capture = capture_->state();
  return figures;
}

void WanConsole::capture(bool on) {
  if (!capture_) {
    throw std::system_error(wan_sim::Errc::bad_scenario,
                            "there is no --pcap; start wan-sim with --engine packet and --pcap "
                            "DIRECTORY, or --pcap-off as well to begin without");
  }
  capture_->turn(on);
}

wan_sim::Verdict WanConsole::judge() const {
  wan_sim::Verdict verdict = wan_->verdict();
  const auto stats = wan_->stats();
  for (const WanPort& port : ports_) {
    const wan_sim::Pair back{port.pair.second, port.pair.first};
    const std::string name = port.from + ":" + port.to;
    const bool told = std::ranges::count(verdict.silent, name) > 0;
    if (!told && stats.at(port.pair).bytes + stats.at(back).bytes == 0)
      verdict.silent.push_back(name);
  }
  return verdict;
}

void WanConsole::record_figures() {
  if (recording_) recording_->add(since_start(), wan_->stats());
}

void WanConsole::record_verdict(const wan_sim::Verdict& verdict) {
  if (!recording_) return;
  record_figures();
  recording_->add(since_start(), verdict);
}

}  // namespace causeway::apps
