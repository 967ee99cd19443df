// When a region that connects again and again is taken for two.

#include "inter/mesh/mesh_core.h"

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Contests : public testing::Test {
 protected:
  // Whether the link that stands since `age` stays.
  bool connects(milliseconds age) { return contest_.is_on(now_ - age, now_); }

  Contest::Clock::time_point now_{std::chrono::hours(1)};
  Contest contest_;
};

TEST_F(Contests, LinksThatEndEachOtherAtOnceAreOfTwoProcesses) {
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(connects(milliseconds(200)));
  for (int i = 0; i < 1000; ++i) {
    now_ += seconds(5);
    EXPECT_TRUE(connects(seconds(5) * (i + 1))) << "as long as the other one knocks";
  }
  now_ += seconds(31);
  EXPECT_FALSE(connects(milliseconds(200))) << "it is over";
}

TEST_F(Contests, ARegionThatRestartsIsOne) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(connects(milliseconds(200)));
    EXPECT_FALSE(connects(milliseconds(200)));
    EXPECT_FALSE(connects(seconds(6)));
  }
}

}  // namespace

}  // namespace causeway::inter
