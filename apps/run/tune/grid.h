// Which choices a tuning tries: what was asked for, and else what suits the run and its links.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/tune/predict.h"
#include "diloco/pacing/recommendation.h"

namespace causeway::run {

struct Grid {
  std::vector<std::uint32_t> ks;                        // empty: k_grid()
  std::vector<diloco::tuner::Variant> variants;         // empty: all but delayed
  std::uint32_t fragments = 0;                          // of streaming; 0: by the number of layers
  std::uint32_t overlap_steps = 0;                      // 0: what hides the exchange, 5 at most
  std::vector<std::optional<inter::Shape>> topologies;  // empty: the configuration's
  std::vector<diloco::ExchangeKind> exchanges;          // empty: the configuration's
};

struct Choices {
  std::vector<diloco::tuner::Row> rows;  // yet to be predicted
  std::vector<std::string> warnings;     // of what was asked for and cannot be
};

// A choice that is there twice would be its own runner-up, and be measured twice.
template <typename T>
std::vector<T> without_repeats(const std::vector<T>& choices) {
  std::vector<T> once;
  for (const T& choice : choices)
    if (std::ranges::find(once, choice) == once.end()) once.push_back(choice);
  return once;
}

// Those that are tried, with the most steps that may hide an exchange of streaming.
std::vector<diloco::tuner::Overlap> overlaps_of(const Grid& grid, const Config& config);

// Only what a configuration can hold: K that the fragments divide and that is no more than the
// run's steps, overlaps that end before the next exchange. Throws ConfigError if nothing is left.
Choices choices_of(const Grid& grid, const PredictInput& input);

// The configuration that makes this choice.
Config with_choice(const Config& configured, const diloco::tuner::Row& row);

// Powers of two around the optimum of the closed form and around `k`, which is among them; none
// above `steps`, those of the run.
std::vector<std::uint32_t> k_grid(std::uint32_t k, double step_s, double exchange_s,
                                  std::uint64_t steps);

// The nearest K to `k` that a run of `steps` can have in `fragments`: both must divide. If none is
// within a fifth, the nearest that the fragments divide.
std::uint32_t usable_k(std::uint32_t k, std::uint32_t fragments, std::uint64_t steps);

}  // namespace causeway::run
