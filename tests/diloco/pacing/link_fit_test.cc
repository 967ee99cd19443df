#include "diloco/pacing/time_model.h"

#include <gtest/gtest.h>

namespace causeway::diloco::tuner {
namespace {

TEST(LinkFit, FindsLatencyAndBandwidth) {
  std::vector<Transfer> transfers;
  for (const double bytes : {1e3, 1e5, 1e6, 1e7}) transfers.push_back({bytes, 0.08 + bytes / 1e7});
  const LinkFit fit = fit_link(transfers);
  EXPECT_NEAR(fit.latency_s, 0.08, 1e-9);
  EXPECT_NEAR(1 / fit.seconds_per_byte, 1e7, 1);
}

TEST(LinkFit, OneSizeGivesTheBandwidthAlone) {
  const LinkFit fit = fit_link(std::vector<Transfer>{{1e6, 0.25}, {1e6, 0.25}});
  EXPECT_NEAR(1 / fit.seconds_per_byte, 4e6, 1);
  EXPECT_EQ(fit.latency_s, 0);
}

TEST(LinkFit, NothingBecomesNegative) {
  const LinkFit falling = fit_link(std::vector<Transfer>{{1e5, 0.3}, {1e6, 0.1}});
  EXPECT_GE(falling.seconds_per_byte, 0);
  EXPECT_GT(falling.latency_s, 0);
  const LinkFit steep = fit_link(std::vector<Transfer>{{1e5, 0.001}, {1e6, 1}});
  EXPECT_GE(steep.latency_s, 0);
  EXPECT_GT(steep.seconds_per_byte, 0);
}

TEST(LinkFit, QuantilesLieBetweenSamples) {
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 1), 4);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.95), 7);
}

}  // namespace
}  // namespace causeway::diloco::tuner
