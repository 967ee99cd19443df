#include "inter/route/link_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace causeway::inter {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kMiB = 1U << 20;

class Meter : public testing::Test {
 protected:
  // Confirmations of one MiB each, `gap` apart.
  void burst(int confirmations, milliseconds gap) {
    for (int i = 0; i < confirmations; ++i) {
      now_ += gap;
      meter_.on_acknowledged(kMiB, i + 1 == confirmations, now_);
    }
  }
  // A short one: confirmed in pieces, the last `took` after it began.
  void short_burst(std::uint64_t bytes, milliseconds took) {
    meter_.on_burst(now_);
    meter_.on_acknowledged(bytes / 2, false, now_ + took * 9 / 10);
    meter_.on_acknowledged(bytes - bytes / 2, true, now_ += took);
    now_ += seconds(1);
  }
  // What TCP says of the path, and heartbeats of the path and its queues.
  void round_trips(milliseconds path, milliseconds heartbeat) {
    figures_.round_trip_min = path;
    meter_.on_tcp(1, figures_);
    meter_.on_round_trip(heartbeat, now_);
  }
  // A burst with this peak.
  void delivered(std::uint64_t mib_per_s) {
    meter_.on_delivered(mib_per_s * kMiB, seconds(1));
    meter_.on_delivered(mib_per_s * kMiB, seconds(1));
    meter_.on_quiet();
  }
  // Of a thousand segments.
  void lose(std::uint64_t segments) {
    figures_.sent_segments += 1000;
    figures_.retransmitted_segments += segments;
    meter_.on_tcp(1, figures_);
  }
  LinkMeter::Time now_{seconds(100)};
  TcpFigures figures_;
  LinkMeter meter_;
};

TEST_F(Meter, MeasuresTheRateOfABurstWithoutItsRoundTrip) {
  burst(21, milliseconds(10));
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 100.0 * kMiB, kMiB);
}

TEST_F(Meter, WhatWasSentAgainForNothingWasNotLost) {
  figures_.unneeded_segments = 30;  // of the peer's word
  lose(30);
  EXPECT_EQ(meter_.loss(), 0);
  figures_.unneeded_segments += 10;
  lose(30);
  EXPECT_DOUBLE_EQ(meter_.loss(), 0.25 * 0.02);
}

TEST_F(Meter, AWordThatComesLateTakesNothingBack) {
  lose(20);
  figures_.unneeded_segments = 20;
  lose(0);
  EXPECT_DOUBLE_EQ(meter_.loss(), 0.75 * 0.25 * 0.02);
  lose(30);
  EXPECT_GT(meter_.loss(), 0.25 * 0.01);
}

TEST_F(Meter, PausesBetweenBurstsDoNotCount) {
  for (int i = 0; i < 5; ++i) {
    burst(21, milliseconds(10));
    now_ += seconds(30);
  }
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 100.0 * kMiB, kMiB);
}

TEST_F(Meter, LongTransfersAreMeasuredOnTheWay) {
  for (int i = 0; i < 300; ++i) {
    now_ += milliseconds(10);
    meter_.on_acknowledged(kMiB, false, now_);
  }
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 100.0 * kMiB, 5 * kMiB);
}

TEST_F(Meter, RatesThatVaryHaveQuantiles) {
  EXPECT_EQ(meter_.rate_quantile_bytes_per_s(0.5), 0);
  for (int i = 0; i < 100; ++i) burst(21, milliseconds(i % 10 == 0 ? 40 : 10));
  EXPECT_NEAR(meter_.rate_quantile_bytes_per_s(0.5), 100.0 * kMiB, kMiB);
  EXPECT_NEAR(meter_.rate_quantile_bytes_per_s(0.05), 25.0 * kMiB, kMiB);
}

TEST_F(Meter, FewBytesSayNothing) {
  meter_.on_acknowledged(100, false, now_);
  meter_.on_acknowledged(100, true, now_ + milliseconds(1));
  EXPECT_EQ(meter_.rate_bytes_per_s(), 0);
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0) << "no limit before there is a measurement";
}

TEST_F(Meter, ShortBurstsThatThePathHoldsBackAreMeasured) {
  round_trips(milliseconds(60), milliseconds(60));
  short_burst(200'000, seconds(10));
  EXPECT_EQ(meter_.rate_bytes_per_s(), 0) << "the peer may have paused";
  short_burst(200'000, seconds(10));
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 20'000, 200);
  short_burst(100'000, seconds(10));
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 15'000, 200);
  EXPECT_EQ(meter_.at_least_bytes_per_s(), 0);
}

TEST_F(Meter, HeartbeatsThatWaitBehindABurstDoNotHideItsRate) {
  round_trips(milliseconds(60), seconds(8));
  for (int i = 0; i < 2; ++i) short_burst(50'000, seconds(13));
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 50'000.0 / 13, 50);
}

TEST_F(Meter, ShortBurstsThatRoundTripsHoldBackSayOnlyWhatThePathCarriesAtLeast) {
  round_trips(milliseconds(200), milliseconds(200));
  for (int i = 0; i < 5; ++i) short_burst(60'000, seconds(1));
  EXPECT_EQ(meter_.rate_bytes_per_s(), 0);
  EXPECT_NEAR(meter_.at_least_bytes_per_s(), 60'000, 600);
}

TEST_F(Meter, OneBurstThatIsSlowAmongOthersSaysNothing) {
  round_trips(milliseconds(20), milliseconds(20));
  for (int i = 0; i < 5; ++i) {
    short_burst(60'000, milliseconds(100));
    short_burst(60'000, seconds(3));
  }
  EXPECT_EQ(meter_.rate_bytes_per_s(), 0);
}

TEST_F(Meter, HardlyAnyBytesSayNothingHoweverLongTheyTake) {
  for (int i = 0; i < 5; ++i) short_burst(1000, seconds(3));
  EXPECT_EQ(meter_.rate_bytes_per_s(), 0);
  EXPECT_EQ(meter_.at_least_bytes_per_s(), 0);
}

// Payloads queue up faster than they leave.
TEST_F(Meter, AQueueThatNeverEndsIsMeasuredOnASlowPath) {
  round_trips(milliseconds(60), seconds(5));
  meter_.on_burst(now_);
  for (int i = 0; i < 5; ++i) meter_.on_acknowledged(50'000, false, now_ += seconds(10));
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 5'000, 50);
}

TEST_F(Meter, HowQuickAPathWasBeforeSaysNothingOnceItIsSlow) {
  round_trips(milliseconds(60), milliseconds(60));
  for (int i = 0; i < 5; ++i) short_burst(500'000, milliseconds(50));
  for (int i = 0; i < 3; ++i) short_burst(200'000, seconds(10));
  short_burst(20'000, milliseconds(900));  // too few bytes to take long
  EXPECT_LT(meter_.rate_bytes_per_s(), 30'000);
  EXPECT_LT(meter_.at_least_bytes_per_s(), 30'000);
}

TEST_F(Meter, APathThatRecoversShowsByShortBursts) {
  round_trips(milliseconds(60), milliseconds(60));
  for (int i = 0; i < 3; ++i) short_burst(60'000, seconds(10));
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 6'000, 100);
  for (int i = 0; i < 8; ++i) short_burst(60'000, milliseconds(200));
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 300'000, 5'000);
  EXPECT_NEAR(meter_.rate_quantile_bytes_per_s(0.5), 300'000, 5'000);
}

TEST_F(Meter, ShortBurstsTakeNothingFromAMeasuredRate) {
  burst(21, milliseconds(10));
  for (int i = 0; i < 5; ++i) short_burst(60'000, milliseconds(100));
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 100.0 * kMiB, kMiB);
}

TEST_F(Meter, ASlowPathWhoseQueueIsFullIsCrowdedForAWhile) {
  round_trips(milliseconds(60), seconds(3));
  EXPECT_FALSE(meter_.is_crowded(now_)) << "nothing is known of its rate";
  for (int i = 0; i < 2; ++i) short_burst(60'000, seconds(5));
  EXPECT_FALSE(meter_.is_crowded(now_));
  meter_.on_round_trip(seconds(3), now_);
  EXPECT_TRUE(meter_.is_crowded(now_));
  for (int i = 0; i < 50; ++i) meter_.on_round_trip(milliseconds(60), now_ += seconds(1));
  EXPECT_TRUE(meter_.is_crowded(now_)) << "it may be so because less is sent";
  EXPECT_FALSE(meter_.is_crowded(now_ + std::chrono::minutes(11)));
}

// Chunks of many connections end together, so the first confirmation may take a minute.
TEST_F(Meter, ASlowPathIsCrowdedBeforeItConfirmedAnything) {
  burst(21, milliseconds(10));  // it was fast
  const auto busy = [&](std::uint64_t bytes_per_s, int for_s, milliseconds answer) {
    for (int i = 0; i < for_s; ++i) meter_.on_busy(bytes_per_s, seconds(1), answer, now_);
    return meter_.is_crowded(now_);
  };
  EXPECT_FALSE(busy(12'000, 7, seconds(3))) << "not for long yet";
  meter_.on_quiet();
  EXPECT_FALSE(busy(12'000, 7, seconds(3)));
  meter_.on_quiet();
  EXPECT_FALSE(busy(12'000, 8, milliseconds(60))) << "there is little to send";
  EXPECT_FALSE(busy(1'000'000, 8, seconds(3)));
  EXPECT_FALSE(busy(0, 8, seconds(3))) << "it is dark";
  EXPECT_FALSE(busy(12'000, 4, seconds(3)));
  EXPECT_FALSE(busy(1'000'000, 4, seconds(3))) << "the peer paused once";
  EXPECT_FALSE(busy(12'000, 4, seconds(3)));
  EXPECT_TRUE(busy(12'000, 4, seconds(3)));
  EXPECT_FALSE(meter_.is_crowded(now_ + std::chrono::minutes(11)));
}

TEST_F(Meter, OnACrowdedPathTheLimitFollowsWhatIsDelivered) {
  round_trips(milliseconds(60), seconds(3));
  for (int i = 0; i < 2; ++i) short_burst(60'000, seconds(5));
  meter_.on_round_trip(seconds(3), now_);
  ASSERT_TRUE(meter_.is_crowded(now_));
  EXPECT_NEAR(meter_.crowded_pacing_bytes_per_s(seconds(3)), 24'000, 1'000);
  for (int i = 0; i < 8; ++i) {
    const double limit = meter_.crowded_pacing_bytes_per_s(seconds(3));
    meter_.on_delivered(std::llround(limit / 2), milliseconds(500));
    EXPECT_NEAR(meter_.crowded_pacing_bytes_per_s(seconds(3)), 2 * limit, 10);
  }
  meter_.on_quiet();
  EXPECT_NEAR(meter_.crowded_pacing_bytes_per_s(seconds(3)), 24'000, 1'000);
  EXPECT_EQ(meter_.crowded_pacing_bytes_per_s(milliseconds(60)), 0) << "the path is free again";
}

TEST_F(Meter, ARateThatNoSlowPathHasEndsTheCrowd) {
  round_trips(milliseconds(60), seconds(3));
  for (int i = 0; i < 2; ++i) short_burst(60'000, seconds(5));
  meter_.on_round_trip(seconds(3), now_);
  ASSERT_TRUE(meter_.is_crowded(now_));
  burst(3, seconds(9));
  EXPECT_TRUE(meter_.is_crowded(now_)) << "that is slow, too";
  burst(3, seconds(1));
  EXPECT_FALSE(meter_.is_crowded(now_));
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0) << "what it was before sets no limit";
}

TEST_F(Meter, AFastPathIsNeverCrowded) {
  burst(21, milliseconds(10));
  for (int i = 0; i < 10; ++i) meter_.on_round_trip(seconds(3), now_);
  EXPECT_FALSE(meter_.is_crowded(now_));
}

// While a session is away nothing is under way.
TEST_F(Meter, WhatWasLostWithAConnectionIsNotWaitedFor) {
  meter_.on_burst(now_);
  meter_.on_acknowledged(50'000, false, now_ += seconds(1));
  now_ += seconds(60);
  meter_.on_burst(now_);
  meter_.on_acknowledged(50'000, true, now_ += milliseconds(100));
  EXPECT_EQ(meter_.rate_bytes_per_s(), 0);
}

TEST_F(Meter, NothingLostIsNoLimit) {
  delivered(100);
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0);
}

TEST_F(Meter, LossLimitsTheNextBurstsToAboutThePeak) {
  for (const int mib : {2, 8, 10, 10}) {
    meter_.on_delivered(mib * kMiB, milliseconds(100));
  }
  lose(50);
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0) << "not within the burst";
  meter_.on_quiet();
  EXPECT_NEAR(meter_.pacing_bytes_per_s(), 110.0 * kMiB, kMiB);
  EXPECT_GT(meter_.loss(), 0.01);
}

TEST_F(Meter, SlowStartIsNoPeak) {
  for (const int mib : {1, 2, 4, 8, 16}) {
    meter_.on_delivered(mib * kMiB, milliseconds(100));
  }
  lose(50);
  meter_.on_quiet();
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0);
}

TEST_F(Meter, WhatIsBelowTheMeanOfABurstIsNoPeak) {
  for (const int mib : {1, 1, 16, 8}) {
    meter_.on_delivered(mib * kMiB, milliseconds(100));
  }
  lose(50);
  meter_.on_quiet();
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0);
}

TEST_F(Meter, MoreLossTightensTheLimitAndItsAbsenceRemovesIt) {
  lose(50);
  delivered(100);
  const double first = meter_.pacing_bytes_per_s();
  lose(50);
  delivered(100);
  const double second = meter_.pacing_bytes_per_s();
  EXPECT_LT(second, first);
  delivered(100);
  EXPECT_EQ(meter_.pacing_bytes_per_s(), second) << "TCP said nothing";
  lose(0);
  delivered(100);
  EXPECT_NEAR(meter_.pacing_bytes_per_s(), first, 2.0 * kMiB);
  for (int i = 0; i < 10; ++i) {
    lose(0);
    delivered(100);
  }
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0);
}

TEST_F(Meter, LossWithoutAPeakIsRememberedUntilThereIsOne) {
  for (int i = 0; i < 10; ++i) {
    for (const int mib : {1, 2, 4, 8, 16}) meter_.on_delivered(mib * kMiB, milliseconds(100));
    lose(50);
    meter_.on_quiet();
  }
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0);
  lose(50);
  delivered(100);
  EXPECT_NEAR(meter_.pacing_bytes_per_s(), 99.0 * kMiB, kMiB);
}

TEST_F(Meter, ALimitIsLoosenedWithinALongTransfer) {
  lose(50);
  delivered(100);
  const double first = meter_.pacing_bytes_per_s();
  lose(0);
  for (int i = 0; i < 50; ++i) meter_.on_delivered(10 * kMiB, milliseconds(100));
  EXPECT_GT(meter_.pacing_bytes_per_s(), 1.05 * first);
}

TEST_F(Meter, PeakOfThePastIsForgotten) {
  lose(50);
  delivered(100);
  for (int i = 0; i < 20; ++i) {
    lose(0);
    delivered(20);
  }
  lose(50);
  delivered(20);
  EXPECT_NEAR(meter_.pacing_bytes_per_s(), 22.0 * kMiB, kMiB);
}

// The path of 100 MiB/s loses at any rate.
TEST_F(Meter, LossThatALimitDoesNotEndIsNotLimitedForLong) {
  int limited = 0;
  for (int i = 0; i < 200; ++i) {
    const double limit = meter_.pacing_bytes_per_s() / kMiB;
    EXPECT_TRUE(limit == 0 || limit > 79) << limit << " MiB/s before burst " << i;
    limited += limit > 0 ? 1 : 0;
    lose(50);
    delivered(limit > 0 ? std::min<std::uint64_t>(100, std::llround(limit)) : 100);
  }
  EXPECT_LT(limited, 40);
  EXPECT_GT(limited, 10) << "it is tried again";
}

TEST_F(Meter, StallDeadlineFollowsTheTimesBetweenConfirmations) {
  EXPECT_EQ(meter_.stall_deadline(seconds(10), {}), seconds(10)) << "nothing is known yet";
  burst(50, milliseconds(10));
  EXPECT_EQ(meter_.stall_deadline(seconds(10), {}), milliseconds(2500)) << "a quarter at least";
  burst(50, seconds(4));
  EXPECT_GT(meter_.stall_deadline(seconds(100), {}), seconds(25) - milliseconds(1));
  EXPECT_EQ(meter_.stall_deadline(seconds(3), {}), seconds(3));
}

// The queue grew by seconds at once, and no heartbeat came back yet.
TEST_F(Meter, StallDeadlineFollowsHeartbeatsThatAreNotAnswered) {
  burst(50, milliseconds(10));
  EXPECT_EQ(meter_.stall_deadline(seconds(10), milliseconds(100)), milliseconds(2500));
  EXPECT_GT(meter_.stall_deadline(seconds(10), seconds(1)), seconds(8));
  EXPECT_EQ(meter_.stall_deadline(seconds(10), seconds(2)), seconds(10));
}

TEST_F(Meter, RoundTripIsSmoothed) {
  meter_.on_round_trip(milliseconds(80), now_);
  meter_.on_round_trip(milliseconds(160), now_);
  EXPECT_EQ(meter_.round_trip(), milliseconds(90));
}

}  // namespace
}  // namespace causeway::inter
