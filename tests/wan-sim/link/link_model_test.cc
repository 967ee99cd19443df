#include "wan-sim/link/link_model.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "wan-sim/base/chance.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;

constexpr Time kForever = 1h;

// 100 Mbit/s: a segment is 12,500 bytes and takes 1 ms.
LinkProfile profile_of(std::chrono::microseconds delay) {
  LinkProfile profile;
  profile.rate_bytes_per_s = 12.5e6;
  profile.delay = delay;
  return profile;
}

TEST(LinkModel, SpacesSegmentsByTheRateAndShiftsThemByTheDelay) {
  LinkModel link(profile_of(10ms), 1);
  const auto flow = link.add_flow(1);
  link.offer(flow, 1'000'000, 5s);
  const auto arrivals = link.advance(kForever);
  ASSERT_EQ(arrivals.size(), 80U);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    EXPECT_EQ(arrivals[i].bytes, 12'500U);
    EXPECT_EQ(arrivals[i].at, 5s + 10ms + (i + 1) * 1ms);
  }
}

TEST(LinkModel, TakesExactlyBytesOverRateForALongTransfer) {
  for (const double mbit_s : {10.0, 100.0, 1000.0, 10'000.0}) {
    LinkProfile profile = profile_of(50ms);
    profile.rate_bytes_per_s = mbit_s * 1e6 / 8;
    LinkModel link(profile, 1);
    const auto flow = link.add_flow(1);
    link.offer(flow, 16'000'000, 0s);
    const double seconds =
        std::chrono::duration<double>(link.advance(kForever).back().at - 50ms).count();
    EXPECT_NEAR(seconds * profile.rate_bytes_per_s, 16e6, 200) << mbit_s;  // bytes
    EXPECT_GE(seconds * profile.rate_bytes_per_s, 16e6 * (1 - 1e-12));     // never faster
  }
}

TEST(LinkModel, IsIdleFromTheEndOfTheLastSegmentUntilTheNextOffer) {
  LinkModel link(profile_of(10ms), 1);
  const auto flow = link.add_flow(1);
  link.offer(flow, 25'000, 5s);
  EXPECT_FALSE(link.idle_since(flow, 5s + 1ms));
  EXPECT_EQ(link.idle_since(flow, 5s + 9ms), 5s + 2ms) << "although nothing has arrived yet";
  link.offer(flow, 12'500, 6s);
  EXPECT_FALSE(link.idle_since(flow, 6s));
}

TEST(LinkModel, KeepsSegmentsBelowAboutAMillisecond) {
  const auto segment_bytes = [](double mbit_s) {
    LinkProfile profile;
    profile.rate_bytes_per_s = mbit_s * 1e6 / 8;
    return LinkModel(profile, 1).segment_bytes();
  };
  EXPECT_EQ(segment_bytes(1), 1448U);  // one packet, however slow the link
  EXPECT_EQ(segment_bytes(100), 12'500U);
  EXPECT_EQ(segment_bytes(10'000), 65'536U);
}

TEST(LinkModel, ALateCallerLosesNoTime) {
  LinkModel prompt(profile_of(3ms), 1), late(profile_of(3ms), 1);
  prompt.add_flow(1);
  late.add_flow(1);
  std::vector<Time> prompt_times, late_times;
  for (Time now = 0s; now < 100ms; now += 10ms) {
    prompt.offer(0, 125'000, now);
    late.offer(0, 125'000, now);
    for (Time tick = now; tick < now + 10ms; tick += 100us) {
      for (const auto& arrival : prompt.advance(tick)) prompt_times.push_back(arrival.at);
    }
  }
  for (const auto& arrival : prompt.advance(kForever)) prompt_times.push_back(arrival.at);
  for (const auto& arrival : late.advance(kForever)) late_times.push_back(arrival.at);
  EXPECT_EQ(prompt_times, late_times);
  EXPECT_EQ(late_times.back(), 103ms);
}

TEST(LinkModel, AnIdleLinkSavesUpNoCredit) {
  LinkModel link(profile_of(0ms), 1);
  link.add_flow(1);
  link.offer(0, 12'500, 0s);
  link.offer(0, 25'000, 10s);
  EXPECT_EQ(link.advance(kForever).back().at, 10s + 2ms);
}

TEST(LinkModel, SharesTheRateInTurns) {
  LinkModel link(profile_of(0ms), 1);
  link.add_flow(1);
  link.add_flow(2);
  link.offer(0, 1'250'000, 0s);
  link.offer(1, 1'250'000, 0s);
  const auto arrivals = link.advance(kForever);
  ASSERT_EQ(arrivals.size(), 200U);
  for (std::size_t i = 0; i < arrivals.size(); ++i) EXPECT_EQ(arrivals[i].flow, i % 2);
  EXPECT_EQ(arrivals.back().at, 200ms);
}

TEST(LinkModel, AFewBytesDoNotWaitBehindAnotherFlowsBulk) {
  LinkModel link(profile_of(0ms), 1);
  link.add_flow(1);
  link.add_flow(2);
  link.offer(0, 10'000'000, 0s);
  link.offer(1, 125, 500us);
  for (const auto& arrival : link.advance(kForever)) {
    if (arrival.flow == 1) {
      EXPECT_EQ(arrival.at, 1010us);
    }
  }
}

LinkProfile rough() {
  LinkProfile profile = profile_of(20ms);
  profile.jitter.scale = 2ms;
  profile.stalls_per_s = 5;
  profile.stall = 30ms;
  return profile;
}

std::vector<Arrival> two_megabytes(std::uint64_t key) {
  LinkModel link(rough(), key);
  link.add_flow(mix(key, 1));
  link.add_flow(mix(key, 2));
  link.offer(0, 1'000'000, 1s);
  link.offer(1, 1'000'000, 1s);
  return link.advance(kForever);
}

bool same(const std::vector<Arrival>& a, const std::vector<Arrival>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Arrival& x, const Arrival& y) {
    return x.flow == y.flow && x.bytes == y.bytes && x.at == y.at;
  });
}

TEST(LinkModel, DecidesTheSameAgainForTheSameSeed) {
  EXPECT_TRUE(same(two_megabytes(1), two_megabytes(1)));
  EXPECT_FALSE(same(two_megabytes(1), two_megabytes(2)));
}

TEST(LinkModel, JitterNeitherReordersAFlowNorComesBeforeTheDelay) {
  std::map<std::uint64_t, std::uint64_t> bytes;
  std::map<std::uint64_t, Time> last;
  for (const auto& arrival : two_megabytes(3)) {
    EXPECT_GE(arrival.at, last[arrival.flow]);
    last[arrival.flow] = arrival.at;
    bytes[arrival.flow] += arrival.bytes;
    EXPECT_GE(arrival.at, 1s + 20ms);
  }
  EXPECT_EQ(bytes[0], 1'000'000U);
  EXPECT_EQ(bytes[1], 1'000'000U);
}

TEST(LinkModel, JitterOfLonePacketsIsHalfNormal) {
  LinkProfile profile = profile_of(20ms);
  profile.jitter.scale = 500us;
  LinkModel link(profile, 1);
  link.add_flow(9);
  double sum_ms = 0, sum_squares = 0;
  constexpr int kJittered = 20'000;
  for (int i = 0; i < kJittered; ++i) {
    link.offer(0, 125, i * 1s);  // 10 us to send
    const auto arrivals = link.advance(i * 1s + 500ms);
    ASSERT_EQ(arrivals.size(), 1U);
    const double late_ms =
        std::chrono::duration<double, std::milli>(arrivals[0].at - i * 1s - 20010us).count();
    ASSERT_GE(late_ms, 0);
    sum_ms += late_ms;
    sum_squares += late_ms * late_ms;
  }
  EXPECT_NEAR(sum_ms / kJittered, 0.5 * std::sqrt(2 / M_PI), 0.005);
  EXPECT_NEAR(std::sqrt(sum_squares / kJittered), 0.5, 0.005);
}

TEST(LinkModel, JitterDependsOnTheOffsetNotOnTheTime) {
  const auto lateness = [](Time start) {
    LinkModel link(rough(), 5);
    link.add_flow(9);
    link.offer(0, 100'000, start);
    std::vector<Time> late;
    for (const auto& arrival : link.advance(kForever)) late.push_back(arrival.at - start);
    return late;
  };
  EXPECT_EQ(lateness(0s), lateness(1234567ns));
}

TEST(LinkModel, AnEndTravelsBehindTheBytes) {
  LinkModel link(profile_of(10ms), 1);
  link.add_flow(1);
  link.offer(0, 25'000, 0s);
  link.end(0, StreamEnd::finish, 0s);
  const auto arrivals = link.advance(kForever);
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[0].ending, StreamEnd::none);
  EXPECT_EQ(arrivals[1].ending, StreamEnd::finish);
  EXPECT_EQ(arrivals[1].at, 12ms);
}

TEST(LinkModel, AnEndAloneTakesTheDelayAndAResetMayFollow) {
  LinkModel link(profile_of(10ms), 1);
  link.add_flow(1);
  link.end(0, StreamEnd::finish, 1s);
  link.end(0, StreamEnd::reset, 2s);
  const auto arrivals = link.advance(kForever);
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[0].ending, StreamEnd::finish);
  EXPECT_EQ(arrivals[0].at, 1010ms);
  EXPECT_EQ(arrivals[1].ending, StreamEnd::reset);
  EXPECT_EQ(arrivals[1].at, 2010ms);
}

TEST(LinkModel, ARemovedFlowNeverArrivesAndFreesTheLink) {
  LinkModel link(profile_of(10ms), 1);
  link.add_flow(1);
  link.add_flow(2);
  link.offer(0, 1'250'000, 0s);
  link.offer(1, 12'500, 0s);
  link.remove_flow(0);
  const auto arrivals = link.advance(kForever);
  ASSERT_EQ(arrivals.size(), 1U);
  EXPECT_EQ(arrivals[0].flow, 1U);
  EXPECT_EQ(arrivals[0].at, 12ms);  // behind the one segment already begun
}

TEST(LinkModel, AStallHoldsWhatHasNotEnteredAndCostsExactlyItsLength) {
  LinkModel link(profile_of(10ms), 1);
  link.add_flow(1);
  link.offer(0, 125'000, 0s);
  link.stall(3500us, 100ms);
  const auto arrivals = link.advance(kForever);
  ASSERT_EQ(arrivals.size(), 10U);
  EXPECT_EQ(arrivals[3].at, 14ms);  // being sent when the stall began
  EXPECT_EQ(arrivals[4].at, 10ms + 104'500us);
  EXPECT_EQ(arrivals[9].at, 10ms + 109'500us);
}

TEST(LinkModel, AStallAddedDuringAnotherExtendsIt) {
  LinkModel link(profile_of(0ms), 1);
  link.add_flow(1);
  link.stall(0s, 1s);
  link.offer(0, 125, 100ms);
  link.stall(900ms, 1s);
  EXPECT_TRUE(link.advance(1899ms).empty());
  EXPECT_EQ(link.advance(kForever).at(0).at, 1900ms + 10us);
}

TEST(LinkModel, AHandshakePacketWaitsForTheStall) {
  LinkModel link(profile_of(40ms), 1);
  EXPECT_EQ(link.traverse(1s, 1), 1040ms);
  link.stall(1s, 500ms);
  EXPECT_EQ(link.traverse(1200ms, 1), 1540ms);
}

TEST(LinkModel, AcceptsBandwidthTimesDelayPlusTheQueue) {
  LinkProfile profile = profile_of(40ms);
  profile.queue_bytes = 100'000;
  EXPECT_EQ(LinkModel(profile, 1).window_bytes(), 500'000U + 100'000U + 2 * 12'500U);
}

// Whoever wakes at next_event sees every arrival at its very time: none is late.
TEST(LinkModel, WakesForEveryArrivalInTime) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    LinkModel link(rough(), seed);
    for (std::uint64_t flow = 0; flow < 4; ++flow) link.add_flow(seed * 100 + flow);
    std::mt19937_64 random(seed);
    std::uint64_t offered = 0, arrived = 0;
    Time now = 0s;
    int offers = 100;
    Time next_offer = 1ms;
    while (offers > 0 || arrived < offered) {
      const auto event = link.next_event();
      if (offers > 0 && (!event || next_offer < *event)) {
        now = next_offer;
        const std::uint64_t bytes = 1 + random() % 60'000;
        link.offer(random() % 4, bytes, now);
        offered += bytes;
        if (--offers % 17 == 0) link.stall(now, 5ms);
        next_offer = now + Time(random() % 10'000'000);
        continue;
      }
      ASSERT_TRUE(event) << "seed " << seed;
      ASSERT_GE(*event, now) << "seed " << seed;
      now = *event;
      for (const auto& arrival : link.advance(now)) {
        ASSERT_EQ(arrival.at, now) << "seed " << seed;
        arrived += arrival.bytes;
      }
    }
    EXPECT_EQ(arrived, offered);
    EXPECT_FALSE(link.next_event());
  }
}

}  // namespace
}  // namespace causeway::wan_sim
