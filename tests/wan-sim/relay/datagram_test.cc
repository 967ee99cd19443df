#include "wan-sim/relay/datagram_port.h"

#include <bit>
#include <set>
#include <string>

#include "tests/wan-sim/relay/relay_fixture.h"
#include "wan-sim/relay/link.h"

namespace causeway::wan_sim {
namespace {

using asio::ip::udp;
using namespace std::chrono_literals;

const udp::endpoint kAnywhere(asio::ip::address_v4::loopback(), 0);

// A relay with a UDP port from a to b, behind which a socket of the test waits.
class DatagramTest : public RelayTest {
 protected:
  void use(const LinkProfile& profile, std::uint64_t seed = 1) {
    Scenario scenario = two_regions(profile);
    scenario.seed = seed;
    RelayOptions options;
    options.datagrams_only = true;
    relay_ = std::make_unique<Relay>(context_.get_executor(), scenario, options);
    where_ = relay_->open_datagrams("a", "b", target_.local_endpoint(), kAnywhere);
  }
  void send(udp::socket& from, const std::string& text) {
    from.send_to(asio::buffer(text), where_);
  }
  // The next datagram that comes, and from where.
  std::pair<std::string, udp::endpoint> receive(udp::socket& socket) {
    std::string text(2000, '\0');
    udp::endpoint from;
    bool here = false;
    socket.async_receive_from(asio::buffer(text), from,
                              [&](std::error_code error, std::size_t bytes) {
                                ASSERT_FALSE(error);
                                text.resize(bytes);
                                here = true;
                              });
    run_until([&] { return here; });
    return {text, from};
  }
  // Runs until the link has decided on so many datagrams.
  DirectedStats decided(std::uint64_t datagrams) {
    DirectedStats now;
    run_until([&] {
      now = stats("a", "b");
      return now.datagrams + now.datagrams_lost + now.datagrams_dropped == datagrams;
    });
    return now;
  }
  // Which of so many datagrams arrive.
  std::set<std::string> arrivals_of(int datagrams) {
    for (int i = 0; i < datagrams; ++i) send(client_, std::to_string(i));
    std::set<std::string> arrived;
    const std::uint64_t left = decided(static_cast<std::uint64_t>(datagrams)).datagrams;
    while (arrived.size() < left) arrived.insert(receive(target_).first);
    return arrived;
  }

  udp::socket target_{context_, kAnywhere}, client_{context_, kAnywhere},
      other_{context_, kAnywhere};
  udp::endpoint where_;
};

TEST_F(DatagramTest, AnswersGoBackToWhoAsked) {
  use(fast());
  send(client_, "one");
  const auto [one, first] = receive(target_);
  send(other_, "two");
  const auto [two, second] = receive(target_);
  EXPECT_EQ(one, "one");
  EXPECT_EQ(two, "two");
  EXPECT_NE(first, second);
  target_.send_to(asio::buffer("to two", 6), second);
  target_.send_to(asio::buffer("to one", 6), first);
  EXPECT_EQ(receive(client_), std::pair(std::string("to one"), where_));
  EXPECT_EQ(receive(other_), std::pair(std::string("to two"), where_));
  EXPECT_EQ(stats("a", "b").datagrams, 2U);
  EXPECT_EQ(stats("a", "b").bytes, 6U);
  EXPECT_EQ(stats("a", "b").datagram_flows, 2U);
  EXPECT_EQ(stats("b", "a").datagrams, 2U);
}

TEST_F(DatagramTest, ADatagramTakesTheDelayEachWay) {
  use(fast(2ms));
  const Time begin = Link::now();
  send(client_, "");
  const auto [empty, from] = receive(target_);
  EXPECT_EQ(empty, "");
  EXPECT_GE(Link::now() - begin, 2ms);
  target_.send_to(asio::buffer("x", 1), from);
  receive(client_);
  EXPECT_GE(Link::now() - begin, 4ms);
}

TEST_F(DatagramTest, TheSameSeedLosesTheSameDatagrams) {
  LinkProfile profile = fast();
  profile.loss = independent_loss(0.3);
  use(profile);
  const auto first = arrivals_of(100);
  EXPECT_GT(first.size(), 40U);
  EXPECT_LT(first.size(), 95U);
  use(profile);
  EXPECT_EQ(arrivals_of(100), first);
  use(profile, 2);
  EXPECT_NE(arrivals_of(100), first);
}

// A byte a second: nothing leaves the queue while the test runs.
TEST_F(DatagramTest, AFullQueueDrops) {
  LinkProfile profile = fast();
  profile.rate_bytes_per_s = 1;
  profile.queue_bytes = 10 * 1448;
  use(profile);
  for (int i = 0; i < 20; ++i) send(client_, std::string(1472, 'x'));
  const auto dropped = [&] { return stats("a", "b").datagrams_dropped; };
  run_until([&] { return dropped() == 9; });  // one is being sent, and ten wait
  EXPECT_EQ(stats("a", "b").buffered_bytes, 11U * 1472);
}

TEST_F(DatagramTest, NothingPassesACutOrABlackHole) {
  use(fast());
  relay_->cut("a", "b");
  send(client_, "lost");
  EXPECT_EQ(decided(1).datagrams_lost, 1U);
  relay_->heal("a", "b");
  relay_->command("fault = \"black-hole\", pair = [\"a\", \"b\"], for_s = 100");
  send(client_, "lost too");
  EXPECT_EQ(decided(2).datagrams_lost, 2U);
  relay_->heal("a", "b");
  send(client_, "here");
  EXPECT_EQ(receive(target_).first, "here");
}

TEST_F(DatagramTest, ChangesOfTheLinkHoldForDatagrams) {
  use(fast());
  relay_->command("loss = 0.5, pair = [\"a\", \"b\"]");
  EXPECT_LT(arrivals_of(50).size(), 50U);
}

TEST_F(DatagramTest, ComesTwiceOrSpoiltIfTheScenarioSaysSo) {
  LinkProfile profile = fast();
  profile.duplicate = 1;
  profile.corrupt = 1;
  use(profile);
  send(client_, "text");
  const std::string once = receive(target_).first, twice = receive(target_).first;
  EXPECT_EQ(once, twice);
  int bits = 0;
  for (std::size_t i = 0; i < 4; ++i)
    bits += std::popcount(static_cast<unsigned>(once[i] ^ "text"[i]));
  EXPECT_EQ(bits, 1);
}

TEST_F(DatagramTest, NobodyBehindItIsNoReasonToStop) {
  use(fast());
  const udp::endpoint target = target_.local_endpoint();
  target_.close();
  for (int i = 0; i < 5; ++i) {
    send(client_, "nobody");
    decided(static_cast<std::uint64_t>(i) + 1);
  }
  target_ = udp::socket(context_, target);
  send(client_, "somebody");
  EXPECT_EQ(receive(target_).first, "somebody");
}

TEST_F(DatagramTest, FlowsAreBoundedAndForgottenWhenTheyAreIdle) {
  const auto link = [&] {
    return std::make_shared<DatagramLink>(context_.get_executor(), fast(), 1);
  };
  const DatagramPort::Route route{1,      kAnywhere, target_.local_endpoint(),
                                  link(), link(),    [] { return false; }};
  const auto port = std::make_shared<DatagramPort>(context_.get_executor(), route,
                                                   DatagramLimits{std::chrono::hours{1}, 2});
  port->start();
  where_ = port->listens();
  send(client_, "1");
  receive(target_);
  EXPECT_EQ(port->flows(), 1U);
  port->forget_idle(Link::now());
  EXPECT_EQ(port->flows(), 1U);
  port->forget_idle(Link::now() + std::chrono::hours{2});
  EXPECT_EQ(port->flows(), 0U);
  send(client_, "1");
  const udp::endpoint first = receive(target_).second;
  send(other_, "2");
  receive(target_);
  udp::socket third(context_, kAnywhere);
  send(third, "3");
  receive(target_);
  EXPECT_EQ(port->flows(), 2U);
  send(client_, "1 again");
  EXPECT_NE(receive(target_).second, first) << "it was silent for longest, and gave way";
  port->stop();
}

TEST_F(DatagramTest, AHostWithARateOfItsOwnIsRefused) {
  Scenario scenario = two_regions(fast());
  scenario.hosts = {{"h", "a", 1e6}};
  Relay relay(context_.get_executor(), scenario);
  try {
    relay.open_datagrams("h", "b", target_.local_endpoint(), kAnywhere);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("name its region for UDP"));
  }
}

TEST_F(DatagramTest, SettingsOfPacketsAreRefusedWhereStreamsMayRun) {
  const Scenario scenario = parse_scenario(
      "regions = [\"a\", \"b\"]\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 1\nreorder = 0.1\n", "wan");
  EXPECT_THROW(Relay(context_.get_executor(), scenario), std::system_error);
  RelayOptions options;
  options.datagrams_only = true;
  Relay relay(context_.get_executor(), scenario, options);
  relay.command("duplicate = 0.5, pair = [\"a\", \"b\"]");
}

}  // namespace
}  // namespace causeway::wan_sim
