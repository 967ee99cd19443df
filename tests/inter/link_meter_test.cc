#include "inter/link_meter.h"

#include <gtest/gtest.h>

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
  LinkMeter::Time now_{seconds(100)};
  LinkMeter meter_;
};

TEST_F(Meter, MeasuresTheRateOfABurstWithoutItsRoundTrip) {
  burst(21, milliseconds(10));
  EXPECT_NEAR(meter_.rate_bytes_per_s(), 100.0 * kMiB, kMiB);
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

TEST_F(Meter, FewBytesSayNothing) {
  meter_.on_acknowledged(100, false, now_);
  meter_.on_acknowledged(100, true, now_ + milliseconds(1));
  EXPECT_EQ(meter_.rate_bytes_per_s(), 0);
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0) << "no limit before there is a measurement";
}

TEST_F(Meter, LimitIsALittleAboveThePeakOfABurst) {
  for (const int mib : {2, 8, 10, 10}) {
    meter_.on_delivered(mib * kMiB, milliseconds(100));
  }
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0) << "not within the burst";
  meter_.on_quiet();
  EXPECT_GT(meter_.pacing_bytes_per_s(), 105.0 * kMiB);
  EXPECT_LT(meter_.pacing_bytes_per_s(), 120.0 * kMiB);
  meter_.on_quiet();
  EXPECT_GT(meter_.pacing_bytes_per_s(), 105.0 * kMiB) << "a burst too short says nothing";
}

TEST_F(Meter, SlowStartIsNoLimit) {
  for (const int mib : {1, 2, 4, 8, 16}) {
    meter_.on_delivered(mib * kMiB, milliseconds(100));
  }
  meter_.on_quiet();
  EXPECT_EQ(meter_.pacing_bytes_per_s(), 0);
}

TEST_F(Meter, BurstAsFastAsItsLimitGetsAWiderOne) {
  delivered(100);
  const double limit = meter_.pacing_bytes_per_s();
  delivered(114);
  EXPECT_GT(meter_.pacing_bytes_per_s(), 1.4 * limit) << "the path may be wider";
  delivered(114);
  EXPECT_LT(meter_.pacing_bytes_per_s(), 120.0 * kMiB * 1.2) << "it is not";
}

TEST_F(Meter, PeakOfThePastIsForgotten) {
  delivered(100);
  for (int i = 0; i < 20; ++i) {
    delivered(20);
  }
  EXPECT_LT(meter_.pacing_bytes_per_s(), 24.0 * kMiB);
}

TEST_F(Meter, LossTakesTheHeadroomAwayAndItsAbsenceReturnsIt) {
  delivered(100);
  const double generous = meter_.pacing_bytes_per_s();
  EXPECT_GT(generous, 100.0 * kMiB);
  TcpFigures figures;
  for (int i = 0; i < 5; ++i) {
    figures.sent_segments += 1000;
    figures.retransmitted_segments += 50;
    meter_.on_tcp(1, figures);
  }
  EXPECT_NEAR(meter_.pacing_bytes_per_s(), 100.0 * kMiB, kMiB);
  EXPECT_GT(meter_.loss(), 0.02);
  for (int i = 0; i < 10; ++i) {
    figures.sent_segments += 1000;
    meter_.on_tcp(1, figures);
  }
  EXPECT_NEAR(meter_.pacing_bytes_per_s(), generous, 1);
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
