// The engines agree: the same scenario and the same bytes give the same decisions, and, where there
// is no machine to be late, the same times.
#include <set>
#include <string>

#include "tests/wan-sim/relay/relay_fixture.h"
#include "wan-sim/virtual/virtual_wan.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytes = 2'000'000;

std::string text_of(const Pair& pair, const Decision& decision) {
  return pair.first + ">" + pair.second + " flow " + std::to_string(decision.flow) + " " +
         (decision.kind == Decision::Kind::loss ? "loses packet " : "jitter at ") +
         std::to_string(decision.place) + " " + std::to_string(decision.jitter.count());
}

class Agreement : public RelayTest, public testing::WithParamInterface<std::string> {
 protected:
  Scenario scenario() const {
    return parse_scenario(
        "regions = ['a', 'b']\nseed = 11\n[defaults]\nrtt_ms = 4\nrate_mbit_s = 800\n"
        "jitter_ms = 0.2\nloss = 0.01\nloss_burst_packets = 3\ncongestion = '" +
            GetParam() + "'\n",
        "test.toml");
  }
  // Sorted: the log says what was decided, and two flows' draws may come in either order.
  std::set<std::string> by_relay() {
    std::set<std::string> log;
    RelayOptions options;
    options.on_decision = [&](const Pair& pair, const Decision& d) {
      log.insert(text_of(pair, d));
    };
    relay_ = std::make_unique<Relay>(context_.get_executor(), scenario(), options);
    port_ = relay_->open("a", "b", [this] { return upstream_; });
    auto [client, server] = connected();
    std::string received;
    std::vector<asio::awaitable<void>> both;
    both.push_back(send(client, noise(kBytes, 1)));
    both.push_back(receive(server, received, kBytes));
    run(std::move(both));
    return log;
  }
  std::set<std::string> by_virtual_engine() const {
    std::set<std::string> log;
    VirtualWan wan(scenario());
    wan.network().observe(
        [&](const Pair& pair, const Decision& d) { log.insert(text_of(pair, d)); });
    std::uint64_t arrived = 0;
    const auto flow = wan.network().open("a", "b", wan.count_connection({"a", "b"}), true,
                                         [&](std::uint64_t bytes) { arrived += bytes; });
    wan.network().offer(flow, kBytes, 0s);
    while (arrived < kBytes && wan.step(1h)) {
    }
    EXPECT_EQ(arrived, kBytes);
    return log;
  }
};

INSTANTIATE_TEST_SUITE_P(Senders, Agreement, testing::Values("none", "cubic", "bbr"));

TEST_P(Agreement, RelayAndVirtualEngineDecideTheSame) {
  const auto relay = by_relay();
  std::set<std::string> losses;
  for (const std::string& line : relay) {
    if (line.find("loses") != std::string::npos) losses.insert(line);
  }
  EXPECT_GT(losses.size(), 5U);
  const auto virtually = by_virtual_engine();
  for (const std::string& line : losses) EXPECT_TRUE(virtually.contains(line)) << line;
  EXPECT_EQ(relay, virtually);
}

TEST(MaxMin, ServesTheScarcestResourceFirst) {
  // Bertsekas and Gallager: three flows over two links, one over both.
  const std::vector<double> capacities{10, 4};
  const std::vector<std::vector<std::uint32_t>> uses{{0}, {0, 1}, {1}};
  EXPECT_EQ(max_min_rates(capacities, uses), (std::vector<double>{8, 2, 2}));
}

TEST(MaxMin, AHostsShareLeavesTheRestToOthers) {
  const auto network = make_fluid_network(
      parse_scenario("regions = ['a', 'b']\n[defaults]\nrtt_ms = 10\nrate_mbit_s = 80\n"
                     "[[host]]\nname = 'h'\nregion = 'a'\nrate_mbit_s = 20\n",
                     "test.toml"));
  std::uint64_t fast = 0, slow = 0;
  const auto a = network->open("a", "b", 1, true, [&](std::uint64_t bytes) { fast += bytes; });
  const auto h = network->open("h", "b", 2, true, [&](std::uint64_t bytes) { slow += bytes; });
  network->offer(a, 7'500'000, 0s);
  network->offer(h, 2'500'000, 0s);
  // The host allows 2.5 of the 10 MB/s; the other flow gets the rest: both are through at 1 s.
  while (network->next_event() <= 1005ms) network->advance(network->next_event());
  EXPECT_EQ(fast, 7'500'000U);
  EXPECT_EQ(slow, 2'500'000U);
}

}  // namespace
}  // namespace causeway::wan_sim
