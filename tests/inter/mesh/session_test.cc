#include "inter/mesh/session.h"

#include <chrono>
#include <functional>

#include <gtest/gtest.h>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/local/connect_pair.hpp>

#include "inter/tls/tls.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_pki.h"

namespace causeway::inter {
namespace {

Bytes frame_of(std::size_t size, int value) {
  return Bytes(size, static_cast<std::byte>(value));
}

TEST(ControlQueue, SmallFramesLeaveTogetherInOrder) {
  ControlQueue queue(1000);
  queue.add(frame_of(3, 1));
  queue.add(frame_of(2, 2));
  EXPECT_EQ(queue.bytes(), 5U);
  Bytes both = frame_of(3, 1);
  both.resize(5, std::byte{2});
  EXPECT_EQ(queue.take(), both);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.bytes(), 0U);
}

TEST(ControlQueue, ALargeFrameLeavesAlone) {
  ControlQueue queue(1U << 20);
  queue.add(frame_of(100, 1));
  queue.add(frame_of(1U << 20, 2));
  queue.add(frame_of(100, 3));
  EXPECT_EQ(queue.take().size(), 100U);
  EXPECT_EQ(queue.take().size(), 1U << 20);
  EXPECT_EQ(queue.take().size(), 100U);
}

TEST(ControlQueue, APeerThatDoesNotReadShows) {
  ControlQueue queue(1U << 20);
  std::size_t frames = 0;
  for (; !queue.is_too_long(); ++frames) queue.add(frame_of(1U << 20, 0));
  EXPECT_GT(frames, kQueuedMessagesMax);
  EXPECT_LE(frames, kQueuedMessagesMax + 2);
  queue.take();
  EXPECT_FALSE(queue.is_too_long());
}

TEST(ControlQueue, MessagesThatGoAnotherWayAreForgottenAndNothingElse) {
  ControlQueue queue(1000);
  const Bytes ping = encode_number(FrameType::ping, 1);
  queue.add(encode_text(FrameType::message, "one"));
  queue.add(ping);
  queue.add(encode_text(FrameType::message, "two"));
  queue.forget_messages();
  EXPECT_EQ(queue.bytes(), ping.size());
  EXPECT_EQ(queue.take(), ping);
  EXPECT_TRUE(queue.empty());
}

class Deaf : public MeshHandler {
 public:
  std::string judge_greeting(const std::string&, const std::string&) override { return ""; }
  void on_refused_by(const std::string&, const LinkError&) override {}
  void on_peer_up(const std::string&, const std::string&) override {}
  void on_peer_down(const std::string&, const std::string&) override {}
  void on_message(const std::string&, const std::string&) override {}
  void on_blob(const std::string&, const BlobId&) override {}
};

// Nothing of it runs, so what is queued stays.
class SessionTest : public testing::Test {
 protected:
  SessionContext context() {
    const auto intake =
        std::make_shared<Intake>(io_.get_executor(), spool_, 1, [](const auto&, const auto&) {});
    return {.executor = io_.get_executor(),
            .options = options_,
            .handler = handler_,
            .intake = intake,
            .peer = "b",
            .outgoing = outgoing_,
            .meter = meter_,
            .router = router_,
            .restarts = false,
            .via = {},
            .pass_on = {},
            .on_neighbours = {},
            .on_relay = {},
            .on_messages_here = {},
            .on_answers = {}};
  }

  test::TemporaryDirectory directory_;
  asio::io_context io_;
  MeshOptions options_;
  Deaf handler_;
  Spool spool_{directory_.path(), 1U << 20};
  BlobSender outgoing_{spool_, "b"};
  LinkMeter meter_;
  Router router_{"a", {}};
  std::shared_ptr<Connection> control_ =
      std::make_shared<Connection>(asio::ip::tcp::socket(io_), TlsContext(), ConnectionSettings{});
  Session session_{context(), control_, {}};
};

TEST_F(SessionTest, WhoWaitsForRoomIsToldWhenMessagesAreForgotten) {
  session_.send(std::string(kRelayBacklogBytes, 'x'));
  bool room = false;
  asio::co_spawn(io_, session_.wait_for_room(), [&](std::exception_ptr) { room = true; });
  io_.poll();
  EXPECT_FALSE(room);
  session_.mute(1);
  io_.poll();
  EXPECT_TRUE(room);
  session_.close(Errc::refused, "the test is over");
  io_.poll();
}

// Over sockets of this process, without a mesh. The peer reads, and answers nothing.
class RunningSession : public SessionTest {
 protected:
  using Clock = std::chrono::steady_clock;

  // Three heartbeats in a row that are answered quickly would show that a path is free: none is.
  RunningSession() { options_.heartbeat_interval = std::chrono::milliseconds(200); }

  struct Ends {
    std::shared_ptr<Connection> ours, theirs;
  };
  Ends joined() {
    asio::local::stream_protocol::socket one(io_), other(io_);
    asio::local::connect_pair(one, other);
    const Ends ends{end(std::move(one), "a", TlsRole::client),
                    end(std::move(other), "b", TlsRole::server)};
    int shaken = 0;
    for (const auto& connection : {ends.ours, ends.theirs})
      asio::co_spawn(io_, connection->handshake(), [&](std::exception_ptr, auto) { ++shaken; });
    EXPECT_TRUE(run_until([&] { return shaken == 2; }));
    return ends;
  }
  std::shared_ptr<Connection> end(asio::local::stream_protocol::socket socket, const char* region,
                                  TlsRole role) {
    return std::make_shared<Connection>(
        std::move(socket), region, make_tls_context(pki_.credentials(region), role), role,
        ConnectionSettings{.message_bytes_max = 1U << 20, .congestion_control = {}});
  }
  static asio::awaitable<void> read_all(std::shared_ptr<Connection> connection, int& frames) {
    for (;; ++frames) co_await connection->read();
  }
  template <typename Result>
  void spawn(asio::awaitable<Result> task) {
    ++running_;
    asio::co_spawn(io_, std::move(task), [this](std::exception_ptr, auto...) { --running_; });
  }
  bool run_until(const std::function<bool()>& done) {
    const auto give_up = Clock::now() + std::chrono::minutes(1);
    while (!done()) {
      if (Clock::now() > give_up) return false;
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(100));
    }
    return true;
  }
  void fill_path() {
    const auto now = Clock::now();
    for (const int ago : {40, 20}) {
      meter_.on_burst(now - std::chrono::seconds(ago));
      meter_.on_acknowledged(100'000, true, now - std::chrono::seconds(ago - 10));
    }
    for (int i = 0; i < 20; ++i) meter_.on_round_trip(std::chrono::seconds(2), now);
    ASSERT_TRUE(meter_.is_crowded(now));
  }

  test::TestPki pki_{{"a", "b"}};
  int running_ = 0;
};

TEST_F(RunningSession, WhatWaitsWhileThePathIsFullGoesOutOnceItIsFree) {
  fill_path();
  SessionContext context = this->context();
  context.on_answers = [](auto) {};
  const Ends control = joined(), data = joined();
  const auto session = std::make_shared<Session>(context, control.ours, SessionNonce{});
  spawn(Session::run(session));
  io_.poll();  // it has seen that the path is full
  int frames = 0, chunks = 0;
  spawn(read_all(control.theirs, frames));
  spawn(read_all(data.theirs, chunks));
  spawn(Session::serve_data(session, data.ours));
  outgoing_.push(spool_.put(std::vector<std::byte>(4 * kSmallChunkBytes)));
  session->begin_push(true);
  ASSERT_TRUE(run_until([&] { return chunks == 2; }));
  io_.poll();
  EXPECT_EQ(outgoing_.in_flight(1), 2U) << "a full path takes no more";
  meter_.end_crowd();
  EXPECT_TRUE(run_until([&] { return chunks == 4; })) << "nobody told its writer";
  session->close(Errc::refused, "the test is over");
  EXPECT_TRUE(run_until([&] { return running_ == 0; }));
}

}  // namespace

}  // namespace causeway::inter
