// causeway wan-sim with the virtual engine: how long transfers would take.
#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/wan/wan_sim.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::apps {
namespace {

using wan_sim::in_seconds;
using wan_sim::Pair;
using wan_sim::Time;

constexpr Time kGiveUp = std::chrono::hours{24 * 365};
constexpr std::uint64_t kConnectionsMax = 1000;

struct Transfer {
  std::string from, to;
  std::uint64_t bytes = 0;
  std::uint64_t connections = 1;
};

std::uint64_t number_in(const std::string& text, const std::string& whole) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0) {
    throw CLI::ValidationError("--transfer", "'" + whole + "' is not FROM:TO=BYTES[xCONNECTIONS]");
  }
  return value;
}

Transfer parse_transfer(const std::string& text) {
  const std::size_t colon = text.find(':'), equals = text.find('=');
  if (colon == std::string::npos || equals == std::string::npos || colon > equals) {
    throw CLI::ValidationError("--transfer", "'" + text + "' is not FROM:TO=BYTES[xCONNECTIONS]");
  }
  const std::size_t times = text.find('x', equals);
  Transfer transfer{text.substr(0, colon), text.substr(colon + 1, equals - colon - 1),
                    number_in(text.substr(equals + 1, times - equals - 1), text), 1};
  if (times != std::string::npos) transfer.connections = number_in(text.substr(times + 1), text);
  if (transfer.connections > kConnectionsMax) {
    throw CLI::ValidationError("--transfer", "at most 1000 connections");
  }
  return transfer;
}

class VirtualCommand {
 public:
  VirtualCommand(const WanSimFlags& flags, const wan_sim::Scenario& scenario)
      : wan_(scenario, {.mode = flags.engine == "fluid" ? wan_sim::VirtualMode::fluid
                                                        : wan_sim::VirtualMode::chunks}) {}

  void run(const Transfer& transfer) {
    if (!wan_.scenario().links.contains({transfer.from, transfer.to})) {
      throw CLI::ValidationError("--transfer", "no link " + transfer.from + ":" + transfer.to);
    }
    const Time begin = wan_.now();
    if (flows_.size() != transfer.connections || pair_ != Pair{transfer.from, transfer.to}) {
      connect(transfer);
    }
    const std::uint64_t wanted = arrived_ + transfer.bytes;
    std::uint64_t left = transfer.bytes;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      const std::uint64_t share = left / (flows_.size() - i);  // they differ by one byte at most
      if (share > 0) wan_.network().offer(flows_[i], share, wan_.now());
      left -= share;
    }
    while (arrived_ < wanted && wan_.step(kGiveUp)) {
    }
    const double s = in_seconds(wan_.now() - begin);
    std::printf("%s:%s  %llu bytes over %llu connections: %.6f s, %.2f Mbit/s\n",
                transfer.from.c_str(), transfer.to.c_str(),
                static_cast<unsigned long long>(transfer.bytes),
                static_cast<unsigned long long>(transfer.connections), s,
                static_cast<double>(transfer.bytes) * 8 / 1e6 / s);
  }
  void idle(double seconds) {
    wan_.run_until(wan_.now() + Time(static_cast<Time::rep>(1e9 * seconds)));
  }

 private:
  // A round trip, after which the dialler may send.
  void connect(const Transfer& transfer) {
    pair_ = {transfer.from, transfer.to};
    const Pair back{transfer.to, transfer.from};
    Time sent = wan_.now();
    std::optional<Time> established;
    for (std::uint64_t attempt = 0; !established; ++attempt, sent += std::chrono::seconds{1}) {
      const auto arrives = wan_.network().traverse(pair_, sent, attempt);
      if (arrives) established = wan_.network().traverse(back, *arrives, ~attempt);
      if (sent > kGiveUp)
        throw CLI::ValidationError(
            "--transfer", "the regions never connect; check the scenario's events and losses");
    }
    wan_.run_until(*established);
    flows_.clear();
    for (std::uint64_t i = 0; i < transfer.connections; ++i) {
      flows_.push_back(wan_.network().open(transfer.from, transfer.to, wan_.count_connection(pair_),
                                           true,
                                           [this](std::uint64_t bytes) { arrived_ += bytes; }));
    }
  }

  wan_sim::VirtualWan wan_;
  Pair pair_;
  std::vector<wan_sim::VirtualNetwork::FlowId> flows_;
  std::uint64_t arrived_ = 0;
};

}  // namespace

int run_wan_virtual(const WanSimFlags& flags, const wan_sim::Scenario& scenario) {
  if (flags.transfers.empty()) {
    throw CLI::ValidationError(
        "--transfer",
        "is missing; the virtual engine needs at least one FROM:TO=BYTES[xCONNECTIONS]");
  }
  VirtualCommand command(flags, scenario);
  for (std::size_t i = 0; i < flags.transfers.size(); ++i) {
    if (i > 0) command.idle(flags.idle_s);
    command.run(parse_transfer(flags.transfers[i]));
  }
  return 0;
}

}  // namespace causeway::apps
