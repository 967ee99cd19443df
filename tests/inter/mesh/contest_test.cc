// When a region that connects again and again is taken for two.
#include "inter/mesh/contest.h"

#include <chrono>

#include <gtest/gtest.h>

#include "inter/mesh/namesakes.h"

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

TEST(NamesakesTest, AProcessThatComesBackAfterAnotherOneNeverEnded) {
  Namesakes namesakes;
  EXPECT_FALSE(namesakes.compete("1"));
  namesakes.link("1");
  EXPECT_FALSE(namesakes.compete("1")) << "its link broke on its side alone";
  EXPECT_FALSE(namesakes.compete("2")) << "it was started again";
  namesakes.link("2");
  EXPECT_TRUE(namesakes.compete("1"));
  EXPECT_FALSE(namesakes.stays_out("1")) << "it began first";
  namesakes.link("1");
  EXPECT_TRUE(namesakes.compete("2"));
  EXPECT_TRUE(namesakes.stays_out("2"));
  EXPECT_FALSE(namesakes.compete("3")) << "both may have ended";
}

TEST(NamesakesTest, ARegionThatIsStartedAgainAndAgainIsOne) {
  Namesakes namesakes;
  for (int i = 0; i < 100; ++i) {
    const std::string process = std::to_string(i);
    EXPECT_FALSE(namesakes.compete(process));
    namesakes.link(process);
  }
}

TEST(NamesakesTest, WhoSaysNoNameIsNotTakenForTwo) {
  Namesakes namesakes;
  namesakes.link("1");
  namesakes.link("");
  EXPECT_FALSE(namesakes.compete("1"));
  EXPECT_FALSE(namesakes.compete(""));
}

}  // namespace

}  // namespace causeway::inter
