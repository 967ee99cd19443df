#include "diloco/pacing/objective.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace causeway::diloco::tuner {
namespace {

constexpr int kIterationsMax = 200;

double mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double squared_error_of_mean(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  if (values.size() < 2) return std::numeric_limits<double>::infinity();
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return sum / (n - 1) / n;
}

}  // namespace

double steps_factor(double k, const StatisticalPrice& price) {
  if (k >= price.k_reference)
    return price.steps * (1 + price.lambda * std::log(k / price.k_reference));
  const double lockstep = std::min(1.0, price.lockstep_factor);
  return price.steps *
         (lockstep + (1 - lockstep) * std::log(std::max(1.0, k)) / std::log(price.k_reference));
}

double steps_factor(Variant variant) {
  constexpr double kNatsPerTokenFold = 0.108;
  switch (variant) {
    case Variant::synchronous:
    case Variant::streaming:
      return 1;
    case Variant::eager:
      return std::exp(0.02 / kNatsPerTokenFold);
    case Variant::delayed:
      return std::exp(0.06 / kNatsPerTokenFold);
  }
  return 1;
}

LambdaFit fit_lambda(std::span<const PairedLosses> seeds, double k_ratio, double token_ratio) {
  assert(!seeds.empty() && k_ratio > 1 && token_ratio > 1);
  std::vector<double> a, b, ahead;
  for (const PairedLosses& seed : seeds) {
    a.push_back((seed.rare - seed.base) / std::log(k_ratio));
    b.push_back((seed.fewer_tokens - seed.base) / std::log(token_ratio));
    if (seed.lockstep) ahead.push_back(seed.base - *seed.lockstep);
  }
  LambdaFit fit{.a = mean(a), .b = mean(b)};
  if (fit.b <= 0) return fit;
  fit.lambda = fit.a / fit.b;
  // Errors of a and b as if independent (delta method); they share the base run.
  const auto error_of_ratio = [&](double ratio, std::span<const double> numerators) {
    return std::sqrt(squared_error_of_mean(numerators) + ratio * ratio * squared_error_of_mean(b)) /
           fit.b;
  };
  fit.lambda_error = error_of_ratio(fit.lambda, a);
  if (!ahead.empty()) {
    const double folds = mean(ahead) / fit.b;  // of tokens that lockstep is ahead
    fit.lockstep_factor = std::exp(-folds);
    fit.lockstep_error = *fit.lockstep_factor * error_of_ratio(folds, ahead);
  }
  return fit;
}

StatisticalPrice price_of_recipe(const StatisticalPrice& own, std::span<const RecipeLosses> seeds,
                                 double k_ratio, double b) {
  assert(!seeds.empty() && k_ratio > 1 && b > 0);
  constexpr double kChance = 0.01;     // by which one pair differs, of the loss
  std::vector<double> folds, lambdas;  // e-folds of tokens that it needs more
  for (const RecipeLosses& seed : seeds) {
    folds.push_back((seed.other - seed.own) / b);
    lambdas.push_back((seed.other_rare - seed.other) / std::log(k_ratio) / b);
  }
  StatisticalPrice price = own;
  price.lambda = std::max(0.0, mean(lambdas));
  price.lambda_error = std::sqrt(squared_error_of_mean(lambdas));
  price.steps = std::exp(mean(folds));
  const double error =
      seeds.size() > 1 ? std::sqrt(squared_error_of_mean(folds)) : kChance * seeds[0].own / b;
  price.steps_error = price.steps * error;
  return price;
}

double stationary_k(double exchange_per_step, const StatisticalPrice& price) {
  if (price.lambda <= 0) return std::numeric_limits<double>::infinity();
  double k = std::max(price.k_reference, exchange_per_step / price.lambda);
  for (int i = 0; i < kIterationsMax; ++i) {
    const double next = exchange_per_step *
                        ((1 + price.lambda * std::log(k / price.k_reference)) / price.lambda - 1);
    if (next <= 0) return 0;
    if (std::abs(next - k) < 1e-9 * k) return next;
    k = next;
  }
  return k;
}

double optimal_k(double exchange_per_step, const StatisticalPrice& price) {
  return std::max(price.k_reference, stationary_k(exchange_per_step, price));
}

Choice choose_k(std::span<const Candidate> candidates, double choice_share, double interval_share) {
  assert(!candidates.empty());
  const auto best = std::min_element(
      candidates.begin(), candidates.end(),
      [](const Candidate& one, const Candidate& other) { return one.time_s < other.time_s; });
  const auto within = [&](const Candidate& candidate, double share) {
    return candidate.time_s <= best->time_s * (1 + share);
  };
  auto low = best, high = best, chosen = best;
  while (low != candidates.begin() && within(*std::prev(low), interval_share)) --low;
  while (std::next(high) != candidates.end() && within(*std::next(high), interval_share)) ++high;
  while (chosen != low && within(*std::prev(chosen), choice_share)) --chosen;
  return {chosen->k, low->k, high->k, chosen->time_s, best->time_s};
}

}  // namespace causeway::diloco::tuner
