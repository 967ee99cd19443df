#include "wan-sim/base/stall_schedule.h"

#include <vector>

#include <gtest/gtest.h>

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;

StallSchedule without_chance() {
  return StallSchedule(0, Time{0}, 1);
}

TEST(StallSchedule, LeavesWorkAloneWithoutStalls) {
  auto stalls = without_chance();
  stalls.start(0s);
  EXPECT_EQ(stalls.done(5s, 0s), 5s);
  EXPECT_EQ(stalls.done(5s, 2s), 7s);
}

TEST(StallSchedule, InterruptsWorkForAsLongAsTheStallLasts) {
  auto stalls = without_chance();
  stalls.add(10s, 3s);
  EXPECT_EQ(stalls.done(9s, 1s), 10s);   // done at the moment it begins
  EXPECT_EQ(stalls.done(9s, 2s), 14s);   // half before, half after
  EXPECT_EQ(stalls.done(10s, 0s), 13s);  // nothing begins inside
  EXPECT_EQ(stalls.done(12s, 1s), 14s);
  EXPECT_EQ(stalls.done(13s, 1s), 14s);
}

TEST(StallSchedule, MergesStallsThatOverlapInAnyOrder) {
  auto stalls = without_chance();
  stalls.add(20s, 5s);
  stalls.add(10s, 5s);
  stalls.add(12s, 9s);  // joins both
  stalls.add(13s, 1s);  // inside
  EXPECT_EQ(stalls.done(9s, 2s), 26s);
  stalls.add(40s, 1s);
  stalls.add(30s, 1s);
  EXPECT_EQ(stalls.done(29s, 12s), 43s);
}

std::vector<Time> stall_ends(std::uint64_t key, int count) {
  StallSchedule stalls(2.0, 10ms, key);
  stalls.start(1s);
  std::vector<Time> ends;
  Time time = 0s;
  while (static_cast<int>(ends.size()) < count) {
    const Time next = stalls.done(time, 1ms);
    if (next > time + 1ms) ends.push_back(next);
    time = next;
    stalls.forget(time);
  }
  return ends;
}

TEST(StallSchedule, RepeatsBySeed) {
  EXPECT_EQ(stall_ends(7, 100), stall_ends(7, 100));
  EXPECT_NE(stall_ends(7, 100), stall_ends(8, 100));
}

TEST(StallSchedule, StallsAsOftenAsAsked) {
  const auto ends = stall_ends(7, 4000);
  // 2 stalls of 10 ms a second, of which about 2 % merge with the one before.
  EXPECT_NEAR(std::chrono::duration<double>(ends.back() - 1s).count(), 4000 / 2.0 * 1.02, 60.0);
}

TEST(StallSchedule, ForgettingThePastChangesNothingAhead) {
  StallSchedule remembers(5.0, 20ms, 3), forgets(5.0, 20ms, 3);
  remembers.start(0s);
  forgets.start(0s);
  for (Time time = 0s; time < 100s; time += 7ms) {
    forgets.forget(time);
    ASSERT_EQ(remembers.done(time, 3ms), forgets.done(time, 3ms));
  }
}

}  // namespace
}  // namespace causeway::wan_sim
