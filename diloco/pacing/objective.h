// Which K: time to a target loss, and the interval in which it hardly matters.
//
//   T(K) = S(K) x round(K) / K          S(K) = S0 x (1 + lambda ln(K / K0)), K >= K0
//
// S is the inner steps needed, lambda the statistical price of exchanging rarely
// (docs/choosing-k.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "diloco/pacing/time_model.h"

namespace causeway::diloco::tuner {

struct StatisticalPrice {
  double lambda = 0.15;     // published runs of 1B parameters
  double lambda_error = 0;  // standard error; 0: not measured
  double k_reference = 30;  // K0
  // Steps that training which synchronises every step needs, of those that K0 needs. Measured: by
  // paired runs.
  double lockstep_factor = 1;
  // S0 of this way to train, of S0 as configured, and its standard error: other inner optimizers
  // and codecs reach a loss in fewer steps, or in more.
  double steps = 1, steps_error = 0;
};

// S(K) / S0. Below K0, where nothing was measured but K = 1, along a line in ln K between the two;
// rarer exchanges are never taken to save steps.
double steps_factor(double k, const StatisticalPrice& price);

// What applying an exchange late costs in inner steps, from published losses (500M parameters, K =
// 30; Kale et al. 2025, arXiv 2502.12996, Table 2): eager 2.69 and delayed, with a lowered outer
// rate, 2.73, against 2.67, over b = 0.108 nats per e-fold of tokens (1B parameters, arXiv
// 2501.18512, Table 1). Streaming with few steps of overlap: nothing.
double steps_factor(Variant variant);

// lambda = a / b from losses of paired runs: the same initial weights and data order with K and
// with `k_ratio` times K at the same tokens, and with K at `token_ratio` times fewer tokens. Where
// there is also one that synchronised every step, its advantage in steps: exp(-(base - lockstep) /
// b).
struct PairedLosses {
  double base = 0, rare = 0, fewer_tokens = 0;
  std::optional<double> lockstep{};
};
struct LambdaFit {
  double a = 0, b = 0, lambda = 0;
  double lambda_error = 0;                  // standard error over the pairs; infinite with one
  std::optional<double> lockstep_factor{};  // of StatisticalPrice
  double lockstep_error = 0;                // its standard error, likewise
};
// At least one pair; b must come out positive, or lambda is not defined and 0.
LambdaFit fit_lambda(std::span<const PairedLosses> seeds, double k_ratio, double token_ratio);

// The price of training in another way, from losses with the same seeds: as configured with K0, and
// in the other way with K0 and with `k_ratio` times K0. `b`: nats per e-fold of tokens, as above.
// With one seed, chance is taken for a hundredth of the loss (docs/learning.md).
struct RecipeLosses {
  double own = 0, other = 0, other_rare = 0;
};
StatisticalPrice price_of_recipe(const StatisticalPrice& own, std::span<const RecipeLosses> seeds,
                                 double k_ratio, double b);

// K* of synchronous rounds, from dT/dK = 0: K* = r [(1 + lambda ln(K*/K0)) / lambda - 1] with r =
// exchange / step, by iteration. Below K0 it means: K0. 0 if there is none above 0.
double stationary_k(double exchange_per_step, const StatisticalPrice& price);
// The same, not below K0.
double optimal_k(double exchange_per_step, const StatisticalPrice& price);

struct Candidate {
  std::uint32_t k = 0;
  double time_s = 0;  // to the target loss
};
struct Choice {
  std::uint32_t k = 0;
  std::uint32_t low = 0, high = 0;  // the interval
  double time_s = 0, best_time_s = 0;
};
// The curve is flat near its minimum: the interval are the candidates around the best that cost at
// most `interval_share` more, and of them the smallest that costs at most `choice_share` more is
// chosen, as smaller K drifts less. Candidates ascend in K; needs one.
Choice choose_k(std::span<const Candidate> candidates, double choice_share = 0.02,
                double interval_share = 0.05);

}  // namespace causeway::diloco::tuner
