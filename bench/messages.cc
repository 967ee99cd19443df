// What regions tell each other in a round, for more and more regions: messages that say who holds
// what, to the leader and in all, and the time of this machine; told at once, and gathered.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <sstream>
#include <string>

#include "tests/sim/virtual_run.h"

namespace {

using namespace causeway;

constexpr diloco::Round kRounds = 6;
constexpr std::size_t kNever = 1000;

wan_sim::Scenario regions(int count, double link_mbit_s, double region_mbit_s) {
  std::string text = "regions = [";
  for (int i = 0; i < count; ++i) text += (i ? ", 'r" : "'r") + std::to_string(10 + i) + "'";
  text += "]\n[defaults]\nrtt_ms = 100\nrate_mbit_s = " + std::to_string(link_mbit_s) + "\n";
  if (region_mbit_s > 0) {
    for (int i = 0; i < count; ++i) {
      const std::string name = "'r" + std::to_string(10 + i) + "'\n";
      text += "[[host]]\nname = " + name + "region = " + name +
              "rate_mbit_s = " + std::to_string(region_mbit_s) + "\n";
    }
  }
  return wan_sim::parse_scenario(text, "bench.toml");
}

struct Counts {
  double all = 0, holding_all = 0, holding_leader = 0;
};

// Of lines "TIME holding FROM TO" and "TIME other FROM TO". The leader is who hears most.
Counts count(std::istream& log) {
  Counts counts;
  std::map<std::string, double> to, holding_to;
  for (std::string line; std::getline(log, line);) {
    std::istringstream words(line);
    std::string time, what, from, whom;
    words >> time >> what >> from >> whom;
    if (what != "holding" && what != "other") continue;
    ++counts.all;
    ++to[whom];
    if (what == "holding") ++holding_to[whom], ++counts.holding_all;
  }
  const auto by_count = [](const auto& one, const auto& other) {
    return one.second < other.second;
  };
  const auto leader = std::ranges::max_element(to, by_count);
  counts.holding_leader = leader == to.end() ? 0 : holding_to[leader->first];
  return counts;
}

void measure(int count_of_regions, std::size_t gathers_from, double region_mbit_s) {
  std::ostringstream log;
  sim::RunOptions options;
  options.scenario = regions(count_of_regions, 500, region_mbit_s);
  options.mode = wan_sim::VirtualMode::fluid;
  options.rounds = kRounds;
  options.payload_bytes = 625'000'000;  // 10 s over a link that is free
  options.compute = std::chrono::seconds{80};
  options.log = &log;
  options.gathers_from = gathers_from;
  sim::VirtualRun run(options);
  const std::clock_t begin = std::clock();
  const bool ended = run.finish(std::chrono::hours{24});
  const double cpu_s = double(std::clock() - begin) / CLOCKS_PER_SEC;
  std::istringstream lines(log.str());
  const Counts counts = count(lines);
  const double per = double(kRounds) * (count_of_regions - 1);
  std::printf(
      "%2d regions, %s, %s: of payloads %6.1f messages to the leader per round and other region, "
      "%7.0f in all per round; %7.0f of any kind; %6.2f s of CPU; %.3f s in the run%s\n",
      count_of_regions, region_mbit_s > 0 ? "2 Gbit/s each" : "links alone  ",
      gathers_from == kNever ? "at once " : "gathered", counts.holding_leader / per,
      counts.holding_all / kRounds, counts.all / kRounds, cpu_s,
      wan_sim::in_seconds(run.wan().now()), ended ? "" : ", NOT ENDED");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  const int most = argc > 1 ? std::stoi(argv[1]) : 64;
  for (const double region_mbit_s : {0.0, 2000.0}) {
    for (const int regions : {3, 4, 5, 8, 16, 32, 64}) {
      if (regions > most) continue;
      for (const std::size_t from : {kNever, diloco::ProtocolOptions{}.gathers_from})
        measure(regions, from, region_mbit_s);
    }
  }
}
