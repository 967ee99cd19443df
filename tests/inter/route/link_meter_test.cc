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
  EXPECT_EQ(meter_.stall_deadline(seconds(10)), seconds(10)) << "nothing is known yet";
  burst(50, milliseconds(10));
  EXPECT_EQ(meter_.stall_deadline(seconds(10)), milliseconds(2500)) << "a quarter at least";
  burst(50, seconds(4));
  EXPECT_GT(meter_.stall_deadline(seconds(100)), seconds(25) - milliseconds(1));
  EXPECT_EQ(meter_.stall_deadline(seconds(3)), seconds(3));
}

TEST_F(Meter, RoundTripIsSmoothed) {
  meter_.on_round_trip(milliseconds(80));
  meter_.on_round_trip(milliseconds(160));
  EXPECT_EQ(meter_.round_trip(), milliseconds(90));
}

}  // namespace
}  // namespace causeway::inter
