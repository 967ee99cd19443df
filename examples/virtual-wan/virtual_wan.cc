// How long a transfer of 32 MB takes between every pair of regions of a scenario, in virtual time:
//   virtual-wan SCENARIO.toml
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>

#include <wan-sim/scenario/scenario.h>
#include <wan-sim/virtual/virtual_wan.h>

namespace {

using namespace causeway::wan_sim;

constexpr std::uint64_t kBytes = 32'000'000;

double seconds_for(const Scenario& scenario, const Pair& pair) {
  VirtualWan wan(scenario);
  std::uint64_t arrived = 0;
  const auto flow = wan.network().open(pair.first, pair.second, wan.count_connection(pair), true,
                                       [&arrived](std::uint64_t bytes) { arrived += bytes; });
  wan.network().offer(flow, kBytes, wan.now());
  while (arrived < kBytes && wan.step(std::chrono::hours{1})) {
  }
  return arrived < kBytes ? -1 : in_seconds(wan.now());
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) {
    std::fprintf(stderr, "usage: virtual-wan SCENARIO.toml\n");
    return 2;
  }
  const Scenario scenario = load_scenario(arguments[1]);
  for (const auto& [pair, link] : scenario.links)
    std::printf("%s:%s %.3f s\n", pair.first.c_str(), pair.second.c_str(),
                seconds_for(scenario, pair));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "virtual-wan: %s\n", error.what());
  return 1;
}
