#include "apps/run/replay/without_region.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/pacing/weights.h"

namespace causeway::run {
namespace {

using testing::ElementsAre;

struct Given {
  std::string region;
  std::uint64_t tokens = 0;
  double liveness = 1;
  diloco::Round staleness = 0;
  double norm = 1;
};

std::vector<diloco::Offer> offers(const std::vector<Given>& all) {
  std::vector<diloco::Offer> offers;
  for (const Given& one : all) {
    diloco::Offer offer{.contribution = {},
                        .liveness = diloco::liveness_as_weight(one.liveness),
                        .staleness = one.staleness};
    offer.contribution.region = one.region;
    offer.contribution.round = 9 - one.staleness;
    offer.contribution.tokens = one.tokens;
    offer.contribution.delta_norm = one.norm;
    offers.push_back(offer);
  }
  return offers;
}

// Round 9, as the leader decides it, of a run with so many members.
diloco::CommitRecord decided(const std::vector<Given>& all, std::size_t members) {
  diloco::CommitRecord record;
  record.round = 9;
  const auto made = offers(all);
  const diloco::Weights weights = diloco::weigh(made, members);
  for (std::size_t i = 0; i < made.size(); ++i)
    record.participants.push_back(diloco::participant_of(made[i].contribution, weights.values[i]));
  record.skip_momentum = weights.skip_momentum;
  for (std::size_t i = 0; i < members; ++i)
    record.standings.push_back({.region = "member " + std::to_string(i)});
  return record;
}

diloco::CommitRecord record_before(const std::vector<Given>& all) {
  diloco::CommitRecord record;
  record.round = 8;
  for (const Given& one : all)
    record.standings.push_back(
        {.region = one.region, .liveness = static_cast<float>(one.liveness)});
  return record;
}

std::vector<float> weights_of(const diloco::CommitRecord& record) {
  std::vector<float> weights;
  for (const diloco::Participant& one : record.participants) weights.push_back(one.weight);
  return weights;
}

TEST(WithoutRegion, TheRestGetsTheBitsThatTheProtocolWouldHaveDecided) {
  const std::vector<Given> all = {
      {"ap", 7000}, {"eu", 900, 0.5, 1}, {"eu", 1000, 0.5}, {"sa", 3000, 0.125}, {"us", 5000}};
  const diloco::CommitRecord before = record_before(all);
  for (const std::string region : {"ap", "eu", "sa", "us"}) {
    std::vector<Given> rest = all;
    std::erase_if(rest, [&](const Given& one) { return one.region == region; });
    const auto without = without_region(decided(all, 4), &before, region, 1);
    EXPECT_EQ(weights_of(without), weights_of(decided(rest, 4))) << region;
    EXPECT_EQ(without.skip_momentum, decided(rest, 4).skip_momentum) << region;
  }
}

TEST(WithoutRegion, VeryManyTokensCountAsTheProtocolCountsThem) {
  const std::vector<Given> all = {
      {"ap", 7000}, {"eu", 1ULL << 62}, {"eu", 1ULL << 62, 1, 1}, {"sa", 3000}, {"us", 5000}};
  std::vector<Given> rest = all;
  std::erase_if(rest, [](const Given& one) { return one.region == "sa"; });
  EXPECT_EQ(weights_of(without_region(decided(all, 4), nullptr, "sa", 1)),
            weights_of(decided(rest, 4)));
}

TEST(WithoutRegion, InTheFirstRoundAllAreAlive) {
  EXPECT_THAT(
      weights_of(without_region(decided({{"ap", 1}, {"eu", 1}, {"us", 3}}, 3), nullptr, "ap", 1)),
      ElementsAre(0.25F, 0.75F));
}

TEST(WithoutRegion, LatenessCountsTurnsOfAFragment) {
  auto record = decided({{"ap", 4}, {"eu", 4}, {"us", 4}}, 3);
  record.participants[0].round = 5;  // one turn of four fragments
  const auto late = without_region(record, nullptr, "us", 4);
  EXPECT_FLOAT_EQ(late.participants[0].weight / late.participants[1].weight, std::sqrt(0.5F));
}

TEST(WithoutRegion, OfTwoNobodyIsCappedAnyMore) {
  const std::vector<Given> all = {{"ap", 1}, {"eu", 1}, {"us", 1, 1, 0, 30}};
  const auto record = decided(all, 3);
  ASSERT_FLOAT_EQ(record.participants[2].weight, 1.0F / 30);
  EXPECT_THAT(weights_of(without_region(record, nullptr, "us", 1)), ElementsAre(0.5F, 0.5F));
  EXPECT_THAT(weights_of(without_region(record, nullptr, "ap", 1)), ElementsAre(0.5F, 0.5F));
}

TEST(WithoutRegion, OfMoreTheCapStaysAsItWas) {
  const auto record = decided({{"ap", 1}, {"eu", 1}, {"sa", 1}, {"us", 1, 1, 0, 30}}, 4);
  EXPECT_THAT(weights_of(without_region(record, nullptr, "ap", 1)),
              ElementsAre(testing::FloatEq(1.0F / 3), testing::FloatEq(1.0F / 3),
                          testing::FloatEq(0.1F / 3)));
}

TEST(WithoutRegion, MomentumIsLeftOutWhereTheRestIsTooFew) {
  const std::vector<Given> all = {{"ap", 1, 0.25}, {"us", 1}};
  const diloco::CommitRecord before = record_before(all);
  const auto record = decided(all, 2);
  EXPECT_FALSE(record.skip_momentum);
  EXPECT_TRUE(without_region(record, &before, "us", 1).skip_momentum);
  EXPECT_FALSE(without_region(record, &before, "ap", 1).skip_momentum);
}

TEST(WithoutRegion, NobodyMayBeLeftAndThenNothingMoves) {
  const auto without = without_region(decided({{"ap", 1}}, 2), nullptr, "ap", 1);
  EXPECT_TRUE(without.participants.empty());
  EXPECT_TRUE(without.skip_momentum);
}

TEST(WithoutRegion, ARoundThatDoesNotListTheRegionStaysAsItIs) {
  auto record = decided({{"ap", 1}, {"us", 1}}, 2);
  record.participants[0].weight = 0.125F;
  EXPECT_THAT(weights_of(without_region(record, nullptr, "eu", 1)), ElementsAre(0.125F, 0.5F));
}

}  // namespace
}  // namespace causeway::run
