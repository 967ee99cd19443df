#include "inter/mesh/session.h"

#include <gtest/gtest.h>

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

}  // namespace

}  // namespace causeway::inter
