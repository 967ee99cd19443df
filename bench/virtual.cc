// How fast the virtual engine is: chunks over busy links, and the real protocol over a fluid WAN.
#include <spdlog/spdlog.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/sim/virtual_run.h"

namespace {

using namespace causeway;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

wan_sim::Scenario regions(int count, const std::string& link) {
  std::string text = "regions = [";
  for (int i = 0; i < count; ++i) text += (i ? ", 'r" : "'r") + std::to_string(i) + "'";
  return wan_sim::parse_scenario(text + "]\n[defaults]\n" + link, "bench.toml");
}

// Eight directed links, each kept full: what arrives is offered again.
void measure_chunks(double virtual_s) {
  wan_sim::VirtualWan wan(regions(4, "rtt_ms = 80\nrate_mbit_s = 1000\n"));
  std::uint64_t arrived = 0;
  std::vector<std::unique_ptr<wan_sim::VirtualNetwork::FlowId>> flows;
  for (int i = 0; i < 4; ++i) {
    for (const int step : {1, 2}) {
      auto id = std::make_unique<wan_sim::VirtualNetwork::FlowId>(0);
      auto* flow = id.get();
      *flow = wan.network().open("r" + std::to_string(i), "r" + std::to_string((i + step) % 4), 1,
                                 true, [&wan, &arrived, flow](std::uint64_t bytes) {
                                   arrived += bytes;
                                   wan.network().offer(*flow, bytes, wan.now());
                                 });
      wan.network().offer(*flow, 12'000'000, wan.now());
      flows.push_back(std::move(id));
    }
  }
  const auto start = Clock::now();
  wan.run_until(std::chrono::nanoseconds(static_cast<long>(virtual_s * 1e9)));
  const double real_s = seconds_since(start);
  const double chunks = static_cast<double>(arrived) / 65'536;
  std::printf(
      "chunks: 8 links at 1 Gbit/s, 64 KiB, %.0f s in %.3f s: %.0f times real time, "
      "%.1f M chunks/s, rate %.2f %% of set\n",
      virtual_s, real_s, virtual_s / real_s, chunks / real_s / 1e6,
      100 * static_cast<double>(arrived) / (8 * 125e6 * virtual_s));
}

void measure_protocol(wan_sim::VirtualMode mode, const char* name) {
  sim::RunOptions options;
  options.scenario = regions(8, "rtt_ms = 100\nrate_mbit_s = 1000\n");
  options.mode = mode;
  options.rounds = 1'000'000;
  options.payload_bytes = 3'000'000;
  options.compute = std::chrono::seconds{10};
  sim::VirtualRun run(options);
  const auto start = Clock::now();
  run.finish(std::chrono::hours{1});
  const double real_s = seconds_since(start);
  std::printf(
      "protocol, %s: 8 regions, one hour in %.2f s: %zu rounds, %llu events, %.0f times real "
      "time\n",
      name, real_s, run.history().size(), static_cast<unsigned long long>(run.wan().events()),
      3600 / real_s);
}

}  // namespace

int main() {
  spdlog::set_level(spdlog::level::warn);  // of routers, thousands of times a second
  for (int i = 0; i < 3; ++i) measure_chunks(120);
  for (int i = 0; i < 2; ++i) measure_protocol(wan_sim::VirtualMode::fluid, "fluid");
  measure_protocol(wan_sim::VirtualMode::chunks, "chunks");
}
