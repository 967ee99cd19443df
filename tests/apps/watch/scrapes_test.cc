#include "apps/run/watch/metrics_server.h"

#include <gtest/gtest.h>

namespace causeway::run {
namespace {

using std::chrono::seconds;

Scrapes::Clock::time_point at(int second) {
  return Scrapes::Clock::time_point(seconds(second));
}

constexpr auto kNobody = Scrapes::Clock::time_point::min();

TEST(Scrapes, NobodyIsAwaitedWhoDoesNotComeAgainAndAgain) {
  Scrapes scrapes;
  EXPECT_EQ(scrapes.awaited_until(), kNobody);
  scrapes.add("10.0.0.1", at(100), false);
  EXPECT_EQ(scrapes.awaited_until(), kNobody) << "somebody looked once";
}

TEST(Scrapes, ItsNextOneButOneIsAwaited) {
  Scrapes scrapes;
  for (const int second : {100, 115}) scrapes.add("10.0.0.1", at(second), false);
  EXPECT_EQ(scrapes.awaited_until(), at(115 + 30));
  scrapes.add("10.0.0.1", at(116), false);
  EXPECT_EQ(scrapes.awaited_until(), at(116 + 5)) << "a busy host is late by more than a second";
  scrapes.add("10.0.0.1", at(1'000), false);
  EXPECT_EQ(scrapes.awaited_until(), at(1'000 + 120)) << "no more than two minutes";
  scrapes.add("10.0.0.1", at(1'015), true);
  EXPECT_EQ(scrapes.awaited_until(), kNobody) << "it saw the end";
}

TEST(Scrapes, EachOfTwoServersIsToSeeTheEnd) {
  Scrapes scrapes;
  for (const int second : {100, 115}) {
    scrapes.add("10.0.0.1", at(second), false);
    scrapes.add("10.0.0.2", at(second + 7), false);
  }
  scrapes.add("10.0.0.1", at(130), true);
  EXPECT_EQ(scrapes.awaited_until(), at(122 + 30));
  scrapes.add("10.0.0.2", at(137), true);
  EXPECT_EQ(scrapes.awaited_until(), kNobody);
}

TEST(Scrapes, TheLatestAreKeptOfVeryMany) {
  Scrapes scrapes;
  for (int one = 0; one < 1'000; ++one) {
    for (const int second : {0, 15})
      scrapes.add("2001:db8::" + std::to_string(one), at(one + second), false);
  }
  EXPECT_EQ(scrapes.awaited_until(), at(999 + 15 + 30));
}

}  // namespace
}  // namespace causeway::run
