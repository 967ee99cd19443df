#include "inter/mesh/session.h"

#include <gtest/gtest.h>
#include <asio/io_context.hpp>

#include "tests/support/temporary_directory.h"

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

}  // namespace

}  // namespace causeway::inter
