#include "diloco/pacing/weights.h"

#include <cstddef>
#include <cstdint>
#include <string>
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

// Of one region that says so.
std::vector<double> shares_where_one_says(std::uint64_t tokens, std::size_t regions, int parts) {
  std::vector<Offer> offers;
  for (std::size_t i = 0; i < regions; ++i) {
    Offer offer;
    offer.contribution.region = std::string(1, static_cast<char>('a' + i));
    offer.contribution.tokens = i == 0 ? tokens : 100;
    offers.insert(offers.end(), i == 0 ? static_cast<std::size_t>(parts) : 1, offer);
  }
  std::vector<double> shares(regions, 0);
  const Weights weights = weigh(offers, regions);
  for (std::size_t i = 0; i < offers.size(); ++i)
    shares[static_cast<std::size_t>(offers[i].contribution.region[0] - 'a')] += weights.values[i];
  EXPECT_FALSE(weights.skip_momentum);
  return shares;
}

TEST(Weights, OneThatSaysToHaveTakenVeryManyTokensDoesNotTakeAllOfThem) {
  for (const int parts : {1, 9}) {
    const std::vector<double> of_three = shares_where_one_says(1ULL << 63, 3, parts);
    EXPECT_NEAR(of_three[0], 16.0 / 18, 1e-6);
    EXPECT_NEAR(of_three[2], 1.0 / 18, 1e-6);
  }
}

TEST(Weights, UnequalRegionsCountAsMuchAsTheyDid) {
  EXPECT_EQ(shares_where_one_says(1600, 3, 1)[0], static_cast<float>(1600.0 / 1800));
  EXPECT_EQ(shares_where_one_says(1, 3, 1)[0], static_cast<float>(1.0 / 201));
  EXPECT_EQ(shares_where_one_says(10'000, 2, 1)[0], static_cast<float>(10'000.0 / 10'100))
      << "of two regions nobody can say whose tokens are too many";
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
