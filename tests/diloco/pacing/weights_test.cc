#include "diloco/pacing/weights.h"

#include <vector>

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

TEST(Weights, CapTheNormAtThreeTimesTheMedian) {
  std::vector<Offer> offers(3);
  for (Offer& offer : offers) offer.contribution.tokens = 100;
  offers[0].contribution.delta_norm = 1;
  offers[1].contribution.delta_norm = 2;
  offers[2].contribution.delta_norm = 60;
  const Weights weights = weigh(offers, 3);
  EXPECT_FLOAT_EQ(weights.values[0], 1.0F / 3);
  EXPECT_FLOAT_EQ(weights.values[2], 1.0F / 3 / 10);
}

TEST(Weights, SkipMomentumBelowHalfOfTheFullWeight) {
  std::vector<Offer> offers(2);
  for (Offer& offer : offers) offer.contribution.tokens = 100;
  EXPECT_FALSE(weigh(offers, 4).skip_momentum);
  EXPECT_TRUE(weigh(offers, 5).skip_momentum);
  offers[0].liveness = 0.5;
  EXPECT_TRUE(weigh(offers, 4).skip_momentum);
}

TEST(Liveness, DecaysAndRecovers) {
  double liveness = 1;
  int misses = 0;
  for (; liveness > 0; ++misses) liveness = liveness_after(liveness, false);
  EXPECT_EQ(misses, 5);
  EXPECT_EQ(liveness_as_weight(liveness), 0.25);
  EXPECT_EQ(liveness_after(liveness, true), 0.25);
}

}  // namespace
}  // namespace causeway::diloco
