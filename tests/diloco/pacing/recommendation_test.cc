#include "diloco/pacing/recommendation.h"

#include <limits>

#include <gtest/gtest.h>

namespace causeway::diloco::tuner {
namespace {

// A synchronous line: K steps of 0.1 s and an exchange.
std::vector<Row> line(const std::string& codec, double bits, double exchange_s,
                      Overlap overlap = {}) {
  std::vector<Row> rows;
  for (const std::uint32_t k : {10, 20, 40, 80, 160, 320, 640}) {
    Row row{.k = k, .codec = codec, .bits_per_parameter = bits, .overlap = overlap};
    row.complete = true;
    row.participation = 1;
    row.round_s = round_s(k, overlap, {.step_s = 0.1, .exchange_s = exchange_s});
    rows.push_back(row);
  }
  return rows;
}

std::vector<Row> operator+(std::vector<Row> one, const std::vector<Row>& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

TEST(Recommendation, IsNearTheOptimumOfTheClosedForm) {
  const auto rows = line("dense:int8", 8, 1);
  const auto found = recommend(rows, {.lambda = 0.15});
  ASSERT_TRUE(found);
  // K* = 64 for t_c = 10 t_s; the smaller of those that hardly differ.
  EXPECT_EQ(rows[found->row].k, 40U);
  EXPECT_LE(found->low, 40U);
  EXPECT_GE(found->high, 80U);
  EXPECT_EQ(rows[found->half.value()].k, 20U);
  EXPECT_EQ(rows[found->twice.value()].k, 80U);
}

TEST(Recommendation, AnUnknownPriceMakesTheIntervalWide) {
  const auto rows = line("dense:int8", 8, 2);
  const auto unknown = recommend(rows, {.lambda = 0.15}).value();
  const auto known = recommend(rows, {.lambda = 0.15, .lambda_error = 0.01}).value();
  EXPECT_LT(unknown.low, known.low);
  EXPECT_GE(unknown.high, known.high);
}

TEST(Recommendation, OfEqualsTheOneWithMoreBitsIsTaken) {
  const auto rows = line("topk", 0.2, 0.99) + line("dense:int8", 8, 1);
  EXPECT_EQ(rows[recommend(rows, {})->row].codec, "dense:int8");
  const auto slower = line("topk", 0.2, 0.1) + line("dense:int8", 8, 3);
  EXPECT_EQ(slower[recommend(slower, {})->row].codec, "topk");
}

TEST(Recommendation, OfEqualsTheOneWithFullExchangesIsTaken) {
  auto sharded = line("dense:int8", 8, 1);
  for (Row& row : sharded) row.exchange = ExchangeKind::sharded;
  const auto equal = sharded + line("dense:int8", 8, 1);
  EXPECT_EQ(equal[recommend(equal, {})->row].exchange, ExchangeKind::full);
  const auto slower = sharded + line("dense:int8", 8, 3);
  EXPECT_EQ(slower[recommend(slower, {})->row].exchange, ExchangeKind::sharded);
}

TEST(Recommendation, OverlapMustBeWorthItsPrice) {
  const auto cheap = line("dense:int8", 8, 0.1) + line("dense:int8", 8, 0.1, {Variant::eager});
  EXPECT_EQ(cheap[recommend(cheap, {})->row].overlap.variant, Variant::synchronous);
  const auto dear = line("dense:int8", 8, 40) + line("dense:int8", 8, 40, {Variant::eager});
  EXPECT_EQ(dear[recommend(dear, {})->row].overlap.variant, Variant::eager);
}

TEST(Recommendation, ChoicesInWhichRegionsAreLeftOutDoNotCount) {
  auto rows = line("dense:int8", 8, 1);
  for (Row& row : rows) row.participation = row.k < 160 ? 0.7 : 1;
  EXPECT_GE(rows[recommend(rows, {})->row].k, 160U);
  for (Row& row : rows) row.complete = false;
  EXPECT_FALSE(recommend(rows, {}));
}

TEST(Recommendation, RowsArePricedInTimeAndMoney) {
  auto rows = line("dense:int8", 8, 1);
  rows.resize(1);
  rows[0].k = 300;
  rows[0].round_s = 31;
  rows[0].cost_per_round = 0.5;
  price_rows(rows, {.lambda = 0.1, .k_reference = 30}, 30'000);
  // 30,000 (1 + 0.1 ln 10) steps are 123.03 rounds.
  EXPECT_NEAR(rows[0].time_to_loss_s, 124 * 31, 1e-6);
  EXPECT_NEAR(rows[0].cost_to_loss, 124 * 0.5, 1e-6);
}

TEST(Recommendation, NoRunIsShorterThanOneRound) {
  auto rows = line("dense:int8", 8, 1);
  rows.resize(1);
  rows[0].k = 640;
  rows[0].round_s = 65;
  price_rows(rows, {.lambda = 0, .k_reference = 640}, 200);
  EXPECT_NEAR(rows[0].time_to_loss_s, 65, 1e-6);
  price_rows(rows, {.lambda = 0, .k_reference = 640}, 1920);
  EXPECT_NEAR(rows[0].time_to_loss_s, 3 * 65, 1e-6) << "whole already";
}

// K = 160 takes 2.5 rounds of these steps, so three; K = 80 takes five.
TEST(Recommendation, OfAShortRunCountsWholeRounds) {
  std::vector<Row> rows = line("dense:int8", 8, 1);
  rows = {rows[3], rows[4]};
  ASSERT_EQ(rows[1].k, 160U);
  const StatisticalPrice no_price{.lambda = 0};
  EXPECT_EQ(rows[recommend(rows, no_price)->row].k, 160U);
  EXPECT_EQ(rows[recommend(rows, no_price, 400)->row].k, 80U);
}

TEST(Recommendation, WhatOverlappingCostsIsThePublishedPriceUnlessItWasMeasured) {
  auto rows = line("dense:int8", 8, 1, {Variant::eager});
  rows[0].price = StatisticalPrice{.k_reference = double(rows[0].k), .steps = 1.5};
  rows.resize(1);
  rows.push_back(rows[0]);
  rows[1].overlap_priced = true;
  price_rows(rows, {}, 1e9);
  EXPECT_NEAR(rows[0].time_to_loss_s / rows[1].time_to_loss_s, steps_factor(Variant::eager), 1e-6);
  EXPECT_NEAR(steps_factor(rows[1], {}), 1.5, 1e-9);
}

// Another inner optimizer that needs fewer steps, but for noise.
TEST(Recommendation, NoiseAloneRecommendsNothingElse) {
  const auto best_inner = [](double steps, double error) {
    auto rows = line("dense:int8", 8, 1);
    for (Row& row : rows) row.inner = "adamw", row.price = StatisticalPrice{};
    for (Row& row : line("dense:int8", 8, 1)) {
      row.inner = "muon";
      row.price = StatisticalPrice{.steps = steps, .steps_error = error};
      rows.push_back(row);
    }
    return rows[recommend(rows, {})->row].inner;
  };
  EXPECT_EQ(best_inner(0.8, 0.05), "muon");
  EXPECT_EQ(best_inner(0.8, 0.3), "adamw");
  EXPECT_EQ(best_inner(0.8, std::numeric_limits<double>::infinity()), "adamw") << "not known";
  EXPECT_EQ(best_inner(1.2, 0.01), "adamw");
}

}  // namespace
}  // namespace causeway::diloco::tuner
