#include <poll.h>

#include <asio/steady_timer.hpp>

#include "tests/wan-sim/relay/relay_fixture.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;

class RelayFaults : public RelayTest {
 protected:
  std::error_code how_it_ends(tcp::socket& socket) {
    std::string nothing;
    std::error_code error;
    run(receive_all(socket, nothing, error));
    return error;
  }
  static void close_with_reset(tcp::socket& socket) {
    socket.set_option(asio::socket_base::linger(true, 0));
    socket.close();
  }
  void expect_that_bytes_pass() {
    auto [client, server] = connected();
    std::string text;
    std::vector<asio::awaitable<void>> both;
    both.push_back(send(client, "hello"));
    both.push_back(receive(server, text, 5));
    run(std::move(both));
    EXPECT_EQ(text, "hello");
  }
};

TEST_F(RelayFaults, AResetOfTheServerReachesTheClient) {
  use(fast());
  auto [client, server] = connected();
  close_with_reset(server);
  EXPECT_EQ(how_it_ends(client), asio::error::connection_reset);
}

TEST_F(RelayFaults, AResetOfTheClientReachesTheServer) {
  use(fast());
  auto [client, server] = connected();
  close_with_reset(client);
  EXPECT_EQ(how_it_ends(server), asio::error::connection_reset);
}

// The relay learns of the reset by a write, before it has read what the server had said.
TEST_F(RelayFaults, WhatAServerSaidJustBeforeItsResetIsLeftOut) {
  LinkProfile profile = fast(20ms);
  profile.rate_bytes_per_s = 100e3;
  use(profile);
  auto [client, server] = connected();
  std::string text;
  run(send(client, "x"));
  run(receive(server, text, 1));
  run(send(server, "y"));
  run(receive(client, text, 1));
  run(send(server, std::string(20'000, 'w')));  // so that the reset stands in a queue
  run_until([&] { return relay_->stats().at({"b", "a"}).buffered_bytes == 20'000; });
  asio::write(client, asio::buffer("z", 1));
  run_until([&] { return relay_->stats().at({"a", "b"}).buffered_bytes == 1; });
  asio::steady_timer before_it_arrives(context_, asio::steady_timer::time_point::min());
  before_it_arrives.async_wait([&server = server](std::error_code) {
    asio::write(server, asio::buffer("late", 4));
    close_with_reset(server);
  });
  ::poll(nullptr, 0, 40);  // both are due: the relay writes next, and looks at no socket before
  std::error_code error;
  run(receive_all(client, text, error));
  EXPECT_EQ(error, asio::error::connection_reset);
  EXPECT_EQ(text.find("late"), std::string::npos);
}

TEST_F(RelayFaults, WritingToAClientThatIsGoneResetsTheServer) {
  use(fast());
  auto [client, server] = connected();
  client.close();
  EXPECT_EQ(how_it_ends(server), asio::error::eof);
  std::error_code error;
  const std::string bulk(1'000'000, 'x');
  run([](tcp::socket& socket, const std::string& text,
         std::error_code& result) -> asio::awaitable<void> {
    while (!result) {
      co_await asio::async_write(socket, asio::buffer(text),
                                 asio::redirect_error(asio::use_awaitable, result));
    }
  }(server, bulk, error));
  EXPECT_TRUE(error == asio::error::connection_reset || error == asio::error::broken_pipe)
      << error.message();
}

TEST_F(RelayFaults, RefusesWhileNobodyListensAndAsksAnewEachTime) {
  use(fast());
  const auto listening = upstream_;
  upstream_.reset();
  EXPECT_EQ(outcome_of_dialling(), asio::error::connection_reset);
  upstream_ = listening;
  expect_that_bytes_pass();
}

TEST_F(RelayFaults, RefusesWhenTheUpstreamRefuses) {
  use(fast());
  {
    tcp::acceptor gone(context_, {asio::ip::address_v4::loopback(), 0});
    upstream_ = gone.local_endpoint();
  }
  EXPECT_EQ(outcome_of_dialling(), asio::error::connection_reset);
}

TEST_F(RelayFaults, DialsTheAddressesOfAnUpstreamOneAfterTheOther) {
  use(fast());
  tcp::acceptor gone(context_, {asio::ip::address_v4::loopback(), 0});
  const tcp::endpoint refuses = gone.local_endpoint();
  gone.close();
  port_ = relay_->open("a", "b", [this, refuses] { return std::vector{refuses, *upstream_}; });
  expect_that_bytes_pass();
}

TEST_F(RelayFaults, ACutResetsRefusesAndHeals) {
  use(fast());
  auto [client, server] = connected();
  relay_->cut("b", "a");  // the pair, in whichever order
  EXPECT_EQ(how_it_ends(client), asio::error::connection_reset);
  EXPECT_EQ(how_it_ends(server), asio::error::connection_reset);
  EXPECT_EQ(outcome_of_dialling(), asio::error::connection_reset);
  relay_->heal("a", "b");
  expect_that_bytes_pass();
}

TEST_F(RelayFaults, ACutAlsoEndsAConnectionThatIsStillBeingMade) {
  use(fast(5s));
  std::error_code error;
  run([](auto* self, tcp::endpoint port, Relay& relay,
         std::error_code& result) -> asio::awaitable<void> {
    tcp::socket socket(*self);
    co_await socket.async_connect(port, asio::use_awaitable);
    // The relay has accepted it when it counts it.
    while (relay.stats().at({"a", "b"}).connections == 0)
      co_await asio::post(*self, asio::use_awaitable);
    relay.cut("a", "b");
    std::string nothing;
    co_await receive_all(socket, nothing, result);
  }(&context_, port_, *relay_, error));
  EXPECT_EQ(error, asio::error::connection_reset);
}

TEST_F(RelayFaults, AStallHoldsBytesAndKeepsConnections) {
  use(fast());
  auto [client, server] = connected();
  const auto start = std::chrono::steady_clock::now();
  relay_->stall("a", "b", 20ms);
  std::string there, back;
  std::vector<asio::awaitable<void>> both;
  both.push_back(send(client, "hello"));
  both.push_back(send(server, "hello"));
  both.push_back(receive(server, there, 5));
  both.push_back(receive(client, back, 5));
  run(std::move(both));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
  EXPECT_EQ(there, "hello");
  EXPECT_EQ(back, "hello");
}

TEST_F(RelayFaults, StoppingResetsConnectionsAndNothingIsTouchedAfterwards) {
  use(fast());
  auto [client, server] = connected();
  const std::string bulk = noise(4'000'000, 1);
  asio::co_spawn(context_, send(client, bulk), [](std::exception_ptr) {});
  run_until([&] { return stats("a", "b").bytes > 0; });
  relay_.reset();
  std::string text;
  std::error_code error;
  run(receive_all(server, text, error));
  EXPECT_EQ(error, asio::error::connection_reset);
  EXPECT_TRUE(bulk.starts_with(text));
}

TEST_F(RelayFaults, StoppingLeavesNothingPending) {
  use(fast());
  auto [client, server] = connected();
  relay_->stall("a", "b", 1h);
  run(send(client, "hello"));
  run_until([&] { return stats("a", "b").buffered_bytes > 0; });
  relay_->stop();
  context_.run();  // returns, for it has nothing left to wait for
  EXPECT_EQ(stats("a", "b").buffered_bytes, 0U);
  EXPECT_EQ(stats("a", "b").connections, 1U);
}

TEST_F(RelayFaults, ABlackHoleOneWayHoldsThatWayOnly) {
  use(fast());
  auto [client, server] = connected();
  relay_->act({{{"a", "b"}}, Fault{FaultKind::black_hole}, ""});
  std::string back;
  std::vector<asio::awaitable<void>> both;
  both.push_back(send(client, "hello"));
  both.push_back(send(server, "hello"));
  both.push_back(receive(client, back, 5));
  run(std::move(both));
  EXPECT_EQ(back, "hello");
  run_until([&] { return stats("a", "b").buffered_bytes == 5; });
  EXPECT_EQ(stats("a", "b").bytes, 0U);
  relay_->act({{{"a", "b"}}, Heal{}, ""});
  std::string there;
  run(receive(server, there, 5));
  EXPECT_EQ(there, "hello");
}

TEST_F(RelayFaults, OneCorruptedBitIsAllThatDiffers) {
  use(fast());
  auto [client, server] = connected();
  relay_->act({{{"a", "b"}}, Fault{FaultKind::corrupt, Time{0}, 70'001}, ""});
  std::string text(200'000, 'x'), received;
  std::vector<asio::awaitable<void>> both;
  both.push_back(send(client, text));
  both.push_back(receive(server, received, text.size()));
  run(std::move(both));
  EXPECT_EQ(received[70'001], 'x' ^ 1);
  text[70'001] ^= 1;
  EXPECT_TRUE(received == text);
}

TEST_F(RelayFaults, AConnectionIsKilledBehindExactlySoManyBytes) {
  use(fast());
  auto [client, server] = connected();
  relay_->act({{{"a", "b"}}, Fault{FaultKind::kill_after, Time{0}, 123'456}, ""});
  const std::string bulk = noise(1'000'000, 1);
  asio::co_spawn(context_, send(client, bulk), [](std::exception_ptr) {});
  std::string received;
  std::error_code error;
  run(receive_all(server, received, error));
  EXPECT_EQ(error, asio::error::connection_reset);
  EXPECT_EQ(received.size(), 123'456U);
  expect_that_bytes_pass();
}

TEST_F(RelayFaults, ASlowCloseTakesThatMuchLonger) {
  use(fast());
  auto [client, server] = connected();
  relay_->act({{{"a", "b"}}, Fault{FaultKind::slow_close, 30ms}, ""});
  const auto start = std::chrono::steady_clock::now();
  client.shutdown(tcp::socket::shutdown_send);
  EXPECT_EQ(how_it_ends(server), asio::error::eof);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 30ms);
}

TEST_F(RelayFaults, TheTimelineActsByItself) {
  use(
      parse_scenario("regions = ['a', 'b']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 800\n"
                     "[[event]]\nat_s = 0.01\nfault = 'refuse'\n",
                     "test.toml"));
  upstream_.reset();  // before the event a connection is admitted, and ends because nobody listens
  const auto admitted = [&] {
    const auto before = stats("a", "b").connections;
    EXPECT_EQ(outcome_of_dialling(), asio::error::connection_reset);
    return stats("a", "b").connections > before;
  };
  while (admitted()) {
  }
  EXPECT_FALSE(admitted());
}

TEST_F(RelayFaults, AHostsRateIsSharedByAllItsLinks) {
  Scenario scenario = parse_scenario(
      "regions = ['a', 'b', 'c']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 8000\n"
      "[[host]]\nname = 'a'\nregion = 'a'\nrate_mbit_s = 400\n",
      "test.toml");
  use(scenario);
  auto first = connected();
  port_ = relay_->open("a", "c", [this] { return upstream_; });
  auto second = connected();
  const std::string bulk = noise(1'000'000, 1);
  std::string one, two;
  const auto start = std::chrono::steady_clock::now();
  std::vector<asio::awaitable<void>> all;
  all.push_back(send(first.first, bulk));
  all.push_back(send(second.first, bulk));
  all.push_back(receive(first.second, one, bulk.size()));
  all.push_back(receive(second.second, two, bulk.size()));
  run(std::move(all));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 40ms);  // 2 MB at 50 MB/s
}

TEST_F(RelayFaults, RefusesAScenarioThatItCannotHonour) {
  const std::string head = "regions = ['a', 'b']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 8\n";
  EXPECT_THROW(use(parse_scenario(head + "reorder = 0.1\n", "x")), std::system_error);
  EXPECT_THROW(
      use(parse_scenario(head + "[[event]]\nat_s = 1\nprocess = 'kill'\nregion = 'a'\n", "x")),
      std::system_error);
}

TEST_F(RelayFaults, AProcessActionGoesToWhoeverRunsTheProcess) {
  const Scenario scenario = parse_scenario(
      "regions = ['a', 'b']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 8\n"
      "[[event]]\nat_s = 0.001\nprocess = 'kill'\nregion = 'b'\n",
      "x");
  std::string killed;
  RelayOptions options;
  options.on_process = [&](const ProcessAction& action) { killed = action.region; };
  relay_ = std::make_unique<Relay>(context_.get_executor(), scenario, options);
  run_until([&] { return !killed.empty(); });
  EXPECT_EQ(killed, "b");
}

TEST_F(RelayFaults, AQuietRelayIsValidAndSaysSo) {
  use(fast());
  EXPECT_TRUE(relay_->verdict().valid());
}

}  // namespace
}  // namespace causeway::wan_sim
