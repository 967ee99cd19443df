#include "diloco/round/grace.h"

#include <gtest/gtest.h>

#include <chrono>

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

TEST(Grace, FollowsLatenessWithinItsLimits) {
  Grace grace(seconds{1}, seconds{30});
  EXPECT_EQ(grace.length(), seconds{30});
  for (int i = 0; i < 50; ++i) grace.add(seconds{4});
  EXPECT_GE(grace.length(), seconds{4});
  EXPECT_LE(grace.length(), seconds{5});
  for (int i = 0; i < 100; ++i) grace.add(Time{0});
  EXPECT_EQ(grace.length(), seconds{1});
  grace.add(std::chrono::hours{1});
  EXPECT_EQ(grace.length(), seconds{30});
}

}  // namespace
}  // namespace causeway::diloco
