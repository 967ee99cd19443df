// What decides how much a run learns from its tokens besides K: inner optimizer, codec, outer step,
// and whether steps go on meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/config/config.h"
#include "diloco/pacing/time_model.h"

namespace causeway::run {

// The published prices of K are those of larger models, in parameters.
inline constexpr double kPricedFrom = 35e6;

struct Recipe {
  std::string inner;  // inner.optimizer; empty: a program of the user's own has its own
  std::string codec;  // of matrices
  std::optional<diloco::tuner::Overlap> overlap = {};  // empty: as configured
  bool operator==(const Recipe&) const = default;
};

Recipe recipe_of(const Config& config);
// "muon with dense:2bit, eager"
std::string to_string(const Recipe& recipe);

// The configuration with this recipe. What depends on it follows: the inner learning rate (a step
// of Muon may be twice as long as one of AdamW), feedback for codecs of few bits, and the outer
// step (suitable_outer.h). With its own recipe a configuration stays as it is.
Config with(Config config, const Recipe& recipe);

// What Muon's iterations are of the arithmetic of a worker's step, which does not grow with its
// tokens; 0 without Muon.
double muon_share(const Config& config);
// In words, where it is above a tenth; empty: it is not.
std::string muon_concern(const Config& config);

// What a large K costs a small model that AdamW trains, as a sentence without its end; empty:
// nothing that was measured. `inner`: as in a Recipe.
std::string price_of_adamw(std::uint64_t parameters, const std::string& inner, double k);

// What is known to go wrong with these settings, or to cost much, and what to set instead; a
// sentence each, which begins with a key. None is an error.
std::vector<std::string> concerns(const Config& config);

// What to set in a configuration file to get from one to the other: "key = value" lines. An outer
// step that is chosen stays so.
std::vector<std::string> settings_between(const Config& from, const Config& to);

}  // namespace causeway::run
