// How far two ways of weighting a run's rounds lead apart.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "diloco/maths/layout.h"
#include "diloco/maths/train.h"

namespace causeway::run {

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
