#include "tests/wan-sim/relay_fixture.h"

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

}  // namespace
}  // namespace causeway::wan_sim
