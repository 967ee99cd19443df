#include "inter/mesh/segment_sizes.h"

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

SmallSegments::Address address(std::uint16_t port) {
  return {asio::ip::address_v4::loopback(), port};
}

TEST(SmallSegments, TheySwitchWhereNothingIsAnsweredAndLargeOnesComeAgain) {
  SmallSegments small;
  EXPECT_FALSE(small.at(address(1)));
  small.turn(address(1));
  EXPECT_TRUE(small.at(address(1)));
  EXPECT_FALSE(small.at(address(2)));
  small.turn(address(1));
  EXPECT_FALSE(small.at(address(1))) << "they did not help";
  small.turn(address(1));
  small.forget(address(1));
  EXPECT_FALSE(small.at(address(1)));
}

TEST(SmallSegments, EverNewAddressesTakeNoMemory) {
  SmallSegments small;
  std::size_t known = 0;
  for (std::uint16_t port = 1; port <= 1000; ++port) small.turn(address(port));
  for (std::uint16_t port = 1; port <= 1000; ++port) known += small.at(address(port)) ? 1 : 0;
  EXPECT_LE(known, 64U);
  EXPECT_TRUE(small.at(address(1000)));
}

class SegmentSizeTest : public testing::Test {
 protected:
  // How long small ones are kept until large ones are lost again.
  milliseconds lose_large() {
    size_.on_end(seconds(10), 1000, 1000);
    EXPECT_TRUE(size_.small());
    const milliseconds small_for = size_.small_for();
    size_.on_end(small_for, kMovedBytesMin, kMovedBytesMin);
    size_.try_large();
    EXPECT_FALSE(size_.small());
    return small_for;
  }

  SegmentSize size_{minutes(1), 1};
};

TEST_F(SegmentSizeTest, OneThatEndsSoonAndMovedNothingGetsOthers) {
  EXPECT_FALSE(size_.small());
  size_.on_end(seconds(10), kMovedBytesMin, kMovedBytesMin);
  EXPECT_FALSE(size_.small()) << "it moved some";
  size_.on_end(hours(1), 0, 0);
  EXPECT_FALSE(size_.small()) << "nobody used it";
  size_.on_end(seconds(10), 1000, 1000);
  EXPECT_TRUE(size_.small());
  size_.on_end(seconds(10), 1000, 1000);
  EXPECT_FALSE(size_.small()) << "small ones did not help";
}

TEST_F(SegmentSizeTest, SoDoesOneThatMovedSomethingOneWayAlone) {
  size_.on_end(seconds(10), 1000, kMovedBytesMin);
  EXPECT_TRUE(size_.small()) << "what comes may be lost";
  size_.try_large();
  size_.on_end(seconds(10), kMovedBytesMin, 1000);
  EXPECT_TRUE(size_.small()) << "what is sent may be lost";
}

TEST_F(SegmentSizeTest, LargeOnesThatAreLostAgainAndAgainAreTriedLessOften) {
  EXPECT_LE(lose_large(), minutes(1));
  for (int i = 0; i < 10; ++i) lose_large();
  EXPECT_GE(lose_large(), minutes(32));
  EXPECT_LE(lose_large(), minutes(64)) << "there is an end to it";
  size_.on_end(minutes(10), kMovedBytesMin, kMovedBytesMin);
  EXPECT_LE(lose_large(), minutes(1)) << "they were carried meanwhile";
}

}  // namespace
}  // namespace causeway::inter
