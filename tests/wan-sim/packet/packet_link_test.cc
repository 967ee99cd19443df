#include "wan-sim/link/packet_link.h"

#include <gtest/gtest.h>

#include "wan-sim/packet/namespaces.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;

// 11.584 Mbit/s of payload: a full packet of 1500 bytes takes a millisecond.
LinkProfile delayed_by(std::chrono::microseconds delay) {
  LinkProfile profile;
  profile.rate_bytes_per_s = 1448e3;
  profile.delay = delay;
  return profile;
}

TEST(PacketLink, ChargesAFullPacketItsPayloadAndAddsTheDelay) {
  PacketLink link(delayed_by(10ms), 1);
  EXPECT_EQ(link.offer(1500, 1s).leaves, std::vector<Time>{1s + 11ms});
  EXPECT_EQ(link.offer(1500, 1s).leaves, std::vector<Time>{1s + 12ms});
  EXPECT_EQ(link.offer(750, 1s).leaves, std::vector<Time>{1s + 12500us});
  EXPECT_EQ(link.offer(1500, 2s).leaves, std::vector<Time>{2s + 11ms});
}

TEST(PacketLink, DropsWhatFindsTheQueueFull) {
  LinkProfile profile = delayed_by(0ms);
  profile.queue_bytes = 64 * 1448;
  PacketLink link(profile, 1);
  int passed = 0;
  for (int i = 0; i < 100; ++i) passed += !link.offer(1500, 1s).leaves.empty();
  EXPECT_EQ(passed, 65);  // the one being sent, and a queue full
  EXPECT_EQ(link.dropped_packets(), 35U);
  EXPECT_EQ(link.offer(1500, 1s).loss, PacketLoss::full_queue);
  EXPECT_FALSE(link.offer(1500, 1s + 2ms).leaves.empty());  // two are through
}

TEST(PacketLink, AQueueInMillisecondsFollowsTheRate) {
  LinkProfile profile = delayed_by(0ms);
  profile.queue = 100ms;
  EXPECT_EQ(profile.queue_limit_bytes(), 144'800U);
  profile.rate_bytes_per_s *= 10;
  EXPECT_EQ(profile.queue_limit_bytes(), 1'448'000U);
}

TEST(PacketLink, LosesReordersDuplicatesAndSpoilsAsOftenAsAsked) {
  LinkProfile profile = delayed_by(20ms);
  profile.rate_bytes_per_s = 1e9;
  profile.loss = independent_loss(0.1);
  profile.reorder = 0.2;
  profile.duplicate = 0.05;
  profile.corrupt = 0.02;
  PacketLink link(profile, 7);
  double lost = 0, early = 0, twice = 0, spoilt = 0;
  constexpr int kOffered = 20'000;
  for (int i = 0; i < kOffered; ++i) {
    const Time now = i * 1s;
    const auto fate = link.offer(1500, now);
    lost += fate.leaves.empty();
    early += !fate.leaves.empty() && fate.leaves[0] < now + 20ms;
    twice += fate.leaves.size() == 2;
    spoilt += fate.corrupt_at.has_value();
  }
  EXPECT_NEAR(lost / kOffered, 0.1, 0.01);
  EXPECT_NEAR(early / kOffered, 0.2 * 0.9, 0.01);
  EXPECT_NEAR(twice / kOffered, 0.05 * 0.9, 0.005);
  EXPECT_NEAR(spoilt / kOffered, 0.02 * 0.9, 0.005);
}

TEST(PacketLink, JitterKeepsTheOrder) {
  LinkProfile profile = delayed_by(20ms);
  profile.jitter = {JitterShape::normal, 5ms};
  PacketLink link(profile, 3);
  Time last{0};
  for (int i = 0; i < 1000; ++i) {
    const auto fate = link.offer(100, i * 1ms);
    ASSERT_EQ(fate.leaves.size(), 1U);
    EXPECT_GE(fate.leaves[0], last);
    last = fate.leaves[0];
  }
}

TEST(PacketLink, FreeJitterDelaysEachPacketByItselfAndLetsThemOvertake) {
  LinkProfile profile = delayed_by(20ms);
  profile.rate_bytes_per_s = 1e9;
  profile.jitter.scale = 5ms;
  profile.jitter_reorders = true;
  PacketLink free(profile, 7);
  profile.jitter_reorders = false;
  PacketLink kept(profile, 7);
  Time last{0}, latest{0};
  int overtaken = 0;
  for (int i = 0; i < 1000; ++i) {
    const Time leaves = free.offer(1500, i * 1ms).leaves.at(0);
    overtaken += leaves < last;
    last = leaves;
    latest = std::max(latest, leaves);
    EXPECT_EQ(kept.offer(1500, i * 1ms).leaves.at(0), latest) << "the same draws";
  }
  EXPECT_GT(overtaken, 100);
}

TEST(PacketLink, ABlackHoleSwallowsAndAStallHolds) {
  PacketLink link(delayed_by(0ms), 1);
  link.black_hole(true);
  EXPECT_TRUE(link.offer(1500, 1s).leaves.empty());
  link.black_hole(false);
  link.stall(2s, 500ms);
  EXPECT_EQ(link.offer(1500, 2s).leaves, std::vector<Time>{2501ms});
  LinkProfile stopped = link.profile();
  stopped.rate_bytes_per_s = 0;
  link.change(stopped, 5s);
  EXPECT_TRUE(link.offer(1500, 5s).leaves.empty());
  link.change(delayed_by(0ms), 6s);
  EXPECT_EQ(link.offer(1500, 7s).leaves, std::vector<Time>{7001ms});
}

TEST(PacketLink, KnowsItsRegionsFromTheFrame) {
  std::vector<std::uint8_t> frame(64, 0);
  const std::uint8_t ours[] = {0x02, 0x00, 0xc6, 0x12, 0x00, 0x03};
  std::copy(std::begin(ours), std::end(ours), frame.begin());
  EXPECT_EQ(region_of_frame(frame.data(), frame.size()), 2);
  EXPECT_EQ(region_of_frame(frame.data(), 13), -1);
  frame[0] = 0xff;
  EXPECT_EQ(region_of_frame(frame.data(), frame.size()), -1);
}

}  // namespace
}  // namespace causeway::wan_sim
