#include "diloco/pacing/objective.h"

#include <cmath>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace causeway::diloco::tuner {
namespace {

// Where d/dK of (1 + lambda ln(K / K0)) (K + c) / K is 0 for K0 = 30 and an exchange of c steps:
// K = c ((1 + lambda ln(K / K0)) / lambda - 1).
struct Steps {
  double exchange_per_step;
  double k[4];  // for lambda .05, .10, .15, .30; 0: clamped, whatever it is
};
constexpr double kLambdas[] = {0.05, 0.10, 0.15, 0.30};
constexpr Steps kTable[] = {{3, {59, 27, 15, 0}},
                            {10, {209, 102, 64, 18}},
                            {30, {663, 343, 231, 109}},
                            {100, {2335, 1275, 908, 518}}};

TEST(Objective, StationaryKIsThePublishedTable) {
  for (const Steps& row : kTable) {
    for (int i = 0; i < 4; ++i) {
      const StatisticalPrice price{.lambda = kLambdas[i]};
      const double k = stationary_k(row.exchange_per_step, price);
      if (row.k[i] > 0) {
        EXPECT_NEAR(k, row.k[i], 0.5 + 0.001 * row.k[i]) << row.exchange_per_step;
      }
      EXPECT_EQ(optimal_k(row.exchange_per_step, price), std::max(30.0, k));
    }
  }
}

TEST(Objective, StationaryKIsTheMinimumOfTheTime) {
  const StatisticalPrice price{.lambda = 0.1};
  const auto time = [&](double k) { return steps_factor(k, price) * (k + 20) / k; };
  const double k = stationary_k(20, price);
  EXPECT_LT(time(k), time(k * 1.05));
  EXPECT_LT(time(k), time(k / 1.05));
}

TEST(Objective, LambdaOfThePublishedLosses) {
  // 1B: 0.02 between K = 30 and 100; 2.67 -> 2.52 for four times the tokens.
  const PairedLosses pair{.base = 2.52, .rare = 2.54, .fewer_tokens = 2.67};
  const LambdaFit fit = fit_lambda(std::vector{pair}, 100.0 / 30, 4);
  EXPECT_NEAR(fit.a, 0.017, 0.0005);
  EXPECT_NEAR(fit.b, 0.108, 0.0005);
  EXPECT_NEAR(fit.lambda, 0.15, 0.01);
  EXPECT_TRUE(std::isinf(fit.lambda_error));
  // Rarer exchanges by that factor cost about 18 % more tokens.
  EXPECT_NEAR(steps_factor(100, {.lambda = fit.lambda}), 1.18, 0.01);
}

TEST(Objective, SpreadBetweenSeedsBecomesAStandardError) {
  const std::vector<PairedLosses> seeds = {
      {2.0, 2.02, 2.2}, {2.01, 2.05, 2.21}, {1.99, 2.02, 2.19}};
  const LambdaFit fit = fit_lambda(seeds, 4, 2);
  EXPECT_NEAR(fit.lambda, 0.03 / std::log(4) / (0.2 / std::log(2)), 1e-9);
  // a: 0.02, 0.04, 0.03 over ln 4: standard error of the mean 0.01 / sqrt(3).
  EXPECT_NEAR(fit.lambda_error, 0.01 / std::sqrt(3) / std::log(4) / fit.b, 1e-9);
}

TEST(Objective, WhatLockstepSavesHasAStandardErrorToo) {
  const std::vector<PairedLosses> seeds = {
      {2.0, 2.02, 2.2, 1.98}, {2.01, 2.05, 2.21, 1.97}, {1.99, 2.02, 2.19, 1.96}};
  const LambdaFit fit = fit_lambda(seeds, 4, 2);
  // Ahead by 0.02, 0.04, 0.03.
  EXPECT_NEAR(fit.lockstep_factor.value(), std::exp(-0.03 / fit.b), 1e-9);
  EXPECT_NEAR(fit.lockstep_error, *fit.lockstep_factor * 0.01 / std::sqrt(3) / fit.b, 1e-9);
}

TEST(Objective, BelowTheReferenceStepsFallTowardsThoseOfLockstep) {
  const StatisticalPrice price{.lambda = 0.1, .k_reference = 25, .lockstep_factor = 0.8};
  EXPECT_NEAR(steps_factor(1, price), 0.8, 1e-12);
  EXPECT_NEAR(steps_factor(5, price), 0.9, 1e-12);
  EXPECT_NEAR(steps_factor(25, price), 1, 1e-12);
  EXPECT_NEAR(steps_factor(5, {.k_reference = 25, .lockstep_factor = 1.2}), 1, 1e-12);
}

TEST(Objective, ARunThatDoesNotImproveWithTokensGivesNoLambda) {
  const LambdaFit fit = fit_lambda(std::vector{PairedLosses{2, 2.1, 1.9}}, 4, 2);
  EXPECT_EQ(fit.lambda, 0);
  EXPECT_LT(fit.b, 0);
}

TEST(Objective, TheSmallestOfTheNearlyBestIsChosen) {
  const std::vector<Candidate> candidates = {{10, 130}, {20, 104},  {40, 101},
                                             {80, 100}, {160, 103}, {320, 120}};
  const Choice choice = choose_k(candidates);
  EXPECT_EQ(choice.k, 40U);
  EXPECT_EQ(choice.low, 20U);
  EXPECT_EQ(choice.high, 160U);
  EXPECT_EQ(choice.time_s, 101);
  EXPECT_EQ(choice.best_time_s, 100);
}

TEST(Objective, AnIntervalHasNoGap) {
  const std::vector<Candidate> candidates = {{10, 104}, {20, 120}, {40, 100}};
  EXPECT_EQ(choose_k(candidates).low, 40U);
}

TEST(Objective, AnotherWayToTrainIsPricedInTokens) {
  constexpr double kB = 0.2;
  const std::vector<RecipeLosses> seeds{{2.0, 1.9, 1.94}, {2.1, 2.0, 2.04}, {1.9, 1.78, 1.82}};
  const StatisticalPrice own{.lambda = 0.3, .k_reference = 10, .lockstep_factor = 0.8};
  const StatisticalPrice price = price_of_recipe(own, seeds, 4, kB);
  EXPECT_NEAR(price.steps, std::exp(-(0.1 + 0.1 + 0.12) / 3 / kB), 1e-9);
  EXPECT_NEAR(price.steps_error, price.steps * (0.02 / 3) / kB, 1e-9);
  EXPECT_NEAR(price.lambda, 0.04 / std::log(4) / kB, 1e-9);
  EXPECT_NEAR(price.lambda_error, 0, 1e-9);
  EXPECT_EQ(price.k_reference, 10);
  EXPECT_NEAR(steps_factor(10, price), price.steps, 1e-12);
  const StatisticalPrice of_one = price_of_recipe(own, std::span(seeds).first(1), 4, kB);
  EXPECT_NEAR(of_one.steps_error, of_one.steps * 0.02 / kB, 1e-9);
  EXPECT_TRUE(std::isinf(of_one.lambda_error));
}

}  // namespace
}  // namespace causeway::diloco::tuner
