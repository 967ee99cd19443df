// What if a round had been weighted otherwise.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/log/record.h"
#include "diloco/maths/layout.h"
#include "diloco/maths/train.h"

namespace causeway::run {

struct Reweighting {
  std::string region;
  diloco::Round round = 0;
  std::optional<float> weight;  // none: it is left out, and the others share its weight
};

// "eu-west@40" and "eu-west@40=0.25". Throw ConfigError saying what it must be.
Reweighting parse_without(const std::string& text);
Reweighting parse_weight(const std::string& text);

// Throws ConfigError naming two that change the same region's part in the same round.
void check_each_once(const std::vector<Reweighting>& changes);

// `record` with those of its round. Who is left out leaves its weight to the others, in proportion
// to theirs. Throws ConfigError if the record does not list the region, if nobody would be left, or
// if the round was sharded: of that the sums alone are kept.
diloco::CommitRecord reweighted(diloco::CommitRecord record,
                                const std::vector<Reweighting>& changes);

// How far two ways of weighting a run's rounds lead apart.

// Two vectors, in fp64.
struct Apart {
  double norm_a = 0, norm_b = 0, norm_difference = 0;
  double cosine = 1;  // of the angle between them; 1 if one of them is zero
};
// a - origin and b - origin.
Apart apart(std::span<const float> origin, std::span<const float> a, std::span<const float> b);

// In words, at version `version`: how far each moved from `before`, how far they are apart, and in
// which tensors most.
std::vector<std::string> compare_moves(const diloco::Layout& layout, diloco::Round version,
                                       std::span<const float> before,
                                       std::span<const float> decided,
                                       std::span<const float> changed);

}  // namespace causeway::run
