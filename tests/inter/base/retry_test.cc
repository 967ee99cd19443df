// How many lines others can put into our log.

#include "inter/base/retry.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

using std::chrono::minutes;
using testing::Optional;

constexpr LogBudget::Clock::time_point kStart{std::chrono::hours(1)};

TEST(LogBudget, CountsWhatIsAboveTheMinutesLines) {
  LogBudget budget(3);
  EXPECT_THAT(budget.take("a", kStart), Optional(std::string()));
  EXPECT_THAT(budget.take("a", kStart), Optional(std::string()));
  EXPECT_THAT(budget.take("a", kStart),
              Optional(std::string(" (for a minute, more like it are only counted)")));
  for (int i = 0; i < 53'000; ++i) EXPECT_EQ(budget.take("a", kStart), std::nullopt);
  EXPECT_THAT(budget.take("b", kStart), Optional(std::string())) << "each kind has its own";
  EXPECT_THAT(budget.take("a", kStart + minutes(1)),
              Optional(std::string(" (53000 more like it since)")));
  EXPECT_THAT(budget.take("a", kStart + minutes(1)), Optional(std::string()));
}

TEST(LogBudget, KindsThatOthersMakeUpShareOne) {
  LogBudget budget(2);
  int lines = 0;
  for (int i = 0; i < 10'000; ++i) {
    lines += budget.take("kind " + std::to_string(i), kStart).has_value() ? 1 : 0;
  }
  EXPECT_LE(lines, 2 * 257);
}

TEST(LogBudget, NumbersDoNotMakeAnotherKind) {
  EXPECT_EQ(LogBudget::kind_of("eu: 10.0.0.1:80 is gone"),
            LogBudget::kind_of("eu: 10.9.8.7:6 is gone"));
  EXPECT_NE(LogBudget::kind_of("eu: it is up"), LogBudget::kind_of("eu: it is down"));
}

TEST(LogThrottle, LogsAtPowersOfTwo) {
  LogThrottle throttle;
  std::vector<std::string> logged;
  for (int i = 0; i < 10; ++i) {
    if (const auto more = throttle.note("a", kStart)) logged.push_back(*more);
  }
  EXPECT_EQ(logged, (std::vector<std::string>{"", " (seen 2 times)", " (seen 4 times)",
                                              " (seen 8 times)"}));
  EXPECT_THAT(throttle.note("b", kStart), Optional(std::string()));
}

TEST(LogThrottle, StrangersOfManyAddressesGetFewLinesAMinute) {
  LogThrottle throttle;
  int lines = 0;
  for (int i = 0; i < 53'000; ++i) {
    lines += throttle.note("refused " + std::to_string(i), kStart).has_value() ? 1 : 0;
    throttle.reset();
  }
  EXPECT_EQ(lines, 30);
  EXPECT_THAT(throttle.note("refused again", kStart + minutes(1)),
              Optional(std::string(" (52970 more like it since)")));
}

}  // namespace

}  // namespace causeway::inter
