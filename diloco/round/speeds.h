// How fast each region computes, so that unequal ones can arrive together.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "diloco/log/record.h"

namespace causeway::diloco {

class Speeds {
 public:
  // Nothing is learnt from a contribution without steps or compute time, or from a speed that no
  // machine has.
  void learn(const Contribution& made);

  // DyLU (arXiv 2401.09135, equation 6): K_r = floor(K * v_r / v_max), at least 1 unless `k` is 0.
  // `k` itself for a region of unknown speed. Whoever claims more than 16 times the median counts
  // as that fast, so that it cannot take all steps from the others.
  std::uint32_t adapted(std::uint32_t k, const std::string& region) const;

  bool knows(const std::string& region) const { return steps_per_s_.contains(region); }
  // What the slowest region takes for so many inner steps; 0 while no speed is known.
  Time slowest(std::uint32_t steps) const;

 private:
  std::map<std::string, double> steps_per_s_;  // smoothed
};

}  // namespace causeway::diloco
