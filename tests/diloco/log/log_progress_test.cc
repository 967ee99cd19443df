// What a leader makes of the answers of one peer, and when it sends entries again.
#include <chrono>

#include <gtest/gtest.h>

#include "diloco/log/log_progress.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr Time kBeat = seconds{1};

TEST(LogProgress, HasOneMessageWithEntriesUnderWay) {
  LogProgress peer(3);
  EXPECT_EQ(peer.next(), 4U);
  EXPECT_TRUE(peer.is_due(seconds{10}));
  peer.note_sent(2, 3, seconds{10}, kBeat);
  EXPECT_FALSE(peer.is_answered());
  EXPECT_FALSE(peer.is_due(seconds{10}));
  peer.accept(4, seconds{10});
  EXPECT_FALSE(peer.is_answered()) << "an answer to something earlier";
  peer.accept(5, seconds{10});
  EXPECT_TRUE(peer.is_due(seconds{10}));
  EXPECT_EQ(peer.match(), 5U);
  EXPECT_EQ(peer.next(), 6U);
}

TEST(LogProgress, RepeatsLaterEachTimeUpToALimit) {
  LogProgress peer;
  Time now{0};
  for (const int beats : {1, 2, 4, 8, 8}) {
    peer.note_sent(1, 0, now, kBeat);
    EXPECT_FALSE(peer.is_due(now + beats * kBeat - Time{1}));
    now += beats * kBeat;
    EXPECT_TRUE(peer.is_due(now));
  }
}

TEST(LogProgress, AHeartbeatAwaitsNoAnswer) {
  LogProgress peer(3);
  peer.note_sent(0, 2, seconds{1}, kBeat);
  EXPECT_TRUE(peer.is_answered());
  EXPECT_FALSE(peer.lacks(3, 2));
  EXPECT_TRUE(peer.lacks(3, 3)) << "it was not told that entry 3 is committed";
  EXPECT_TRUE(peer.lacks(4, 2)) << "entry 4 is to be sent";
}

TEST(LogProgress, StepsBackNoFurtherThanWhatWasAccepted) {
  LogProgress peer(9);
  EXPECT_TRUE(peer.step_back(5));
  EXPECT_EQ(peer.next(), 5U);
  EXPECT_TRUE(peer.step_back(7)) << "at least by one";
  EXPECT_EQ(peer.next(), 4U);
  peer.accept(4, seconds{1});
  EXPECT_FALSE(peer.step_back(4));
  EXPECT_EQ(peer.next(), 5U);
  peer.begin_anew(9);
  EXPECT_EQ(peer.match(), 0U);
  EXPECT_EQ(peer.next(), 10U);
}

}  // namespace
}  // namespace causeway::diloco
