// What each listed contribution counts (docs/rounds.md, "Weights").
//
//   raw_i    = tokens_i * liveness_i * (1 + staleness_i)^-0.5
//   weight_i = raw_i / sum(raw) * min(1, 3 * median(norm) / norm_i)
//
// The cap on norms scales a contribution, so that it comes after the normalisation; it needs three
// contributions for a median that means something. Tokens are what each region says. So of three
// regions or more, none counts with more of them than 16 times the median region has.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "diloco/log/record.h"

namespace causeway::diloco {

struct Offer {
  Contribution contribution;
  double liveness = 1;
  Round staleness = 0;  // rounds
};

struct Weights {
  std::vector<float> values;  // one per offer, in their order
  // Less than half of what `regions` regions in full would weigh: momentum would carry too few
  // voices on.
  bool skip_momentum = false;
};
Weights weigh(std::span<const Offer> offers, std::size_t regions);

// Liveness in [0, 1]: halved by a missed round, + 1/4 by a listed one; below 1/20 it is 0:
// detached. Who comes back from 0 counts 1/4.
double liveness_after(double liveness, bool listed);
double liveness_as_weight(double liveness);

}  // namespace causeway::diloco
