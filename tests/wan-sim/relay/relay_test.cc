#include "wan-sim/relay/relay.h"

#include "tests/wan-sim/relay/relay_fixture.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_F(RelayTest, DeliversEveryByteInOrderUnderJitterAndStalls) {
  LinkProfile profile = fast();
  profile.jitter.scale = 300us;
  profile.stalls_per_s = 10;
  profile.stall = 5ms;
  profile.queue_bytes = 128 * 1024;
  use(profile);
  constexpr std::size_t kConnections = 4, kBytesEach = 3'000'000;
  std::vector<std::pair<tcp::socket, tcp::socket>> pairs;
  for (std::size_t i = 0; i < kConnections; ++i) pairs.push_back(connected());
  std::vector<std::string> sent(2 * kConnections), received(2 * kConnections);
  std::vector<std::error_code> errors(2 * kConnections);
  std::vector<asio::awaitable<void>> all;
  for (std::size_t i = 0; i < kConnections; ++i) {
    sent[2 * i] = noise(kBytesEach + i, i);
    sent[2 * i + 1] = noise(kBytesEach / 2 + i, 100 + i);
    all.push_back(send_and_finish(pairs[i].first, sent[2 * i]));
    all.push_back(send_and_finish(pairs[i].second, sent[2 * i + 1]));
    all.push_back(receive_all(pairs[i].second, received[2 * i], errors[2 * i]));
    all.push_back(receive_all(pairs[i].first, received[2 * i + 1], errors[2 * i + 1]));
  }
  run(std::move(all));
  for (std::size_t i = 0; i < 2 * kConnections; ++i) {
    EXPECT_TRUE(received[i] == sent[i]) << "stream " << i;  // not EXPECT_EQ: megabytes
    EXPECT_EQ(errors[i], asio::error::eof);
  }
}

TEST_F(RelayTest, AHalfCloseLeavesTheOtherHalfOpen) {
  use(fast());
  auto [client, server] = connected();
  std::string question, answer;
  std::error_code question_error, answer_error;
  std::vector<asio::awaitable<void>> first;
  first.push_back(send_and_finish(client, "question"));
  first.push_back(receive_all(server, question, question_error));
  run(std::move(first));
  EXPECT_EQ(question, "question");
  EXPECT_EQ(question_error, asio::error::eof);
  std::vector<asio::awaitable<void>> second;
  second.push_back(send_and_finish(server, "answer"));
  second.push_back(receive_all(client, answer, answer_error));
  run(std::move(second));
  EXPECT_EQ(answer, "answer");
  EXPECT_EQ(answer_error, asio::error::eof);
}

// A lower bound is no tolerance: a machine that is slow can only add to it.
TEST_F(RelayTest, TheFirstAnswerTakesTwoRoundTrips) {
  use(fast(2ms));
  const auto start = Clock::now();
  auto [client, server] = connected();
  std::string text;
  std::vector<asio::awaitable<void>> there;
  there.push_back(send(client, "hello"));
  there.push_back(receive(server, text, 5));
  run(std::move(there));
  EXPECT_GE(Clock::now() - start, 6ms);
  std::vector<asio::awaitable<void>> back;
  back.push_back(send(server, "hello"));
  back.push_back(receive(client, text, 5));
  run(std::move(back));
  EXPECT_GE(Clock::now() - start, 8ms);
}

TEST_F(RelayTest, AServerThatSpeaksFirstIsHeardAfterTwoRoundTrips) {
  use(fast(2ms));
  const auto start = Clock::now();
  auto [client, server] = connected();
  std::string text;
  std::vector<asio::awaitable<void>> both;
  both.push_back(send(server, "220 ready"));
  both.push_back(receive(client, text, 9));
  run(std::move(both));
  EXPECT_GE(Clock::now() - start, 8ms);
}

TEST_F(RelayTest, NeverExceedsTheRateOverAllConnections) {
  LinkProfile profile = fast();
  profile.rate_bytes_per_s = 50e6;
  use(profile);
  auto first = connected();
  auto second = connected();
  const std::string megabyte = noise(1'000'000, 1);
  std::string a, b;
  std::error_code a_error, b_error;
  const auto start = Clock::now();
  std::vector<asio::awaitable<void>> all;
  all.push_back(send_and_finish(first.first, megabyte));
  all.push_back(send_and_finish(second.first, megabyte));
  all.push_back(receive_all(first.second, a, a_error));
  all.push_back(receive_all(second.second, b, b_error));
  run(std::move(all));
  EXPECT_GE(Clock::now() - start, 40ms);
}

TEST_F(RelayTest, ASlowReceiverIsBackPressureNotMemory) {
  LinkProfile profile = fast(1ms);
  profile.queue_bytes = 64 * 1024;
  use(profile);
  auto [client, server] = connected();
  const std::string bulk = noise(16U << 20, 1);  // more than the kernel's socket buffers hold
  const std::uint64_t window_bytes = 200'000 + profile.queue_bytes + 2 * 65'536;
  bool sent = false;
  asio::co_spawn(context_, send_and_finish(client, bulk), [&](std::exception_ptr) { sent = true; });
  std::uint64_t most = 0;
  run_until(
      [&] { return (most = std::max(most, stats("a", "b").buffered_bytes)) >= window_bytes; });
  EXPECT_EQ(most, window_bytes);
  EXPECT_FALSE(sent);
  std::string received;
  std::error_code error;
  bool done = false;
  asio::co_spawn(context_, receive_all(server, received, error),
                 [&](std::exception_ptr) { done = true; });
  run_until([&] {
    EXPECT_LE(stats("a", "b").buffered_bytes, window_bytes);
    return done;
  });
  EXPECT_TRUE(received == bulk);
  EXPECT_EQ(stats("a", "b").buffered_bytes, 0U);
}

TEST_F(RelayTest, CountsWhatItDelivered) {
  use(fast());
  auto [client, server] = connected();
  std::string text;
  std::vector<asio::awaitable<void>> both;
  both.push_back(send(client, std::string(12'345, 'x')));
  both.push_back(receive(server, text, 12'345));
  run(std::move(both));
  run_until([&] { return stats("a", "b").bytes > 0; });
  EXPECT_EQ(stats("a", "b").bytes, 12'345U);
  EXPECT_EQ(stats("a", "b").connections, 1U);
  EXPECT_EQ(stats("a", "b").buffered_bytes, 0U);
  EXPECT_GT(stats("a", "b").lateness_p99, 0us);
  EXPECT_EQ(stats("b", "a").bytes, 0U);
  EXPECT_EQ(stats("b", "a").connections, 0U);
}

// Else a link of a program that says little, and often, would be called too slow.
TEST_F(RelayTest, FewBytesThatWaitAMomentMissNothing) {
  use(fast());
  auto [client, server] = connected();
  constexpr std::size_t kMessages = 2000;
  std::string text;
  std::vector<asio::awaitable<void>> both;
  both.push_back([](auto self, tcp::socket& from) -> asio::awaitable<void> {
    for (std::size_t i = 0; i < kMessages; ++i) {
      co_await send(from, "x");
      co_await asio::post(self->context_, asio::use_awaitable);  // the relay's turn
    }
  }(this, client));
  both.push_back(receive(server, text, kMessages));
  run(std::move(both));
  EXPECT_EQ(stats("a", "b").missed_bytes, 0U);
  EXPECT_EQ(relay_->verdict().shortfall, 0);
}

// A sender that fills its socket waits for the relay, which this thread keeps from reading for so
// long that the link has sent all it had.
TEST_F(RelayTest, AFullSocketThatWaitsMissesWhatTheLinkHadCarried) {
  use(fast());
  auto [client, server] = connected();
  client.non_blocking(true);
  std::string text;
  std::error_code end;
  std::vector<asio::awaitable<void>> both;
  both.push_back([](auto self, tcp::socket& from) -> asio::awaitable<void> {
    const std::string block(1 << 20, 'x');
    std::size_t sent = 0;
    while (self->stats("a", "b").missed_bytes == 0 && sent < (std::size_t{1} << 28)) {
      std::error_code full;
      sent += from.write_some(asio::buffer(block), full);
      const auto link_is_idle = Clock::now() + 1ms;
      while (Clock::now() < link_is_idle) {
      }
      co_await asio::post(self->context_, asio::use_awaitable);
    }
    from.shutdown(tcp::socket::shutdown_send);
  }(this, client));
  both.push_back(receive_all(server, text, end));
  run(std::move(both));
  EXPECT_GT(stats("a", "b").missed_bytes, 0U);
}

TEST_F(RelayTest, ListensWhereItIsToldAndSaysIfThatIsTaken) {
  use(fast());
  const auto nobody = [] { return std::vector<tcp::endpoint>(); };
  const tcp::endpoint everywhere(asio::ip::address_v4::any(), 0);
  const tcp::endpoint taken = relay_->open("a", "b", nobody, everywhere);
  EXPECT_TRUE(taken.address().is_unspecified());
  EXPECT_NE(taken.port(), 0);
  try {
    relay_->open("b", "a", nobody, taken);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), asio::error::address_in_use);
  }
}

TEST_F(RelayTest, NamesThePairsItHasWhenAskedForAnother) {
  use(fast());
  try {
    relay_->open("a", "c", [] { return std::vector<tcp::endpoint>(); });
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("no link from 'a' to 'c'; the scenario has: a:b b:a"));
  }
}

}  // namespace
}  // namespace causeway::wan_sim
