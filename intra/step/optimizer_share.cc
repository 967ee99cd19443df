#include "intra/step/optimizer_share.h"

#include <cassert>
#include <cmath>
#include <cstring>

namespace causeway::intra {

OptimizerShare::OptimizerShare(const GradientBuckets& buckets, Collective& group,
                               TrainingState& state)
    : buckets_(buckets),
      group_(group),
      state_(state),
      parts_(buckets.parts(group.rank(), group.size())) {}

void OptimizerShare::keep() {
  if (state_.optimizer.has_all()) state_.optimizer.keep(parts_);
}

// A group that breaks meanwhile leaves a state that is not whole.
void OptimizerShare::gather() {
  if (state_.optimizer.has_all()) return;
  state_.intact = false;
  state_.optimizer.widen();
  buckets_.complete(group_, state_.optimizer.first_moment());
  buckets_.complete(group_, state_.optimizer.second_moment(), state_.optimizer.muon());
  state_.intact = true;
}

double OptimizerShare::norm(double own_squares) {
  double total = 0;
  for (const auto& bytes : group_.all_gather(std::as_bytes(std::span(&own_squares, 1)))) {
    assert(bytes.size() == sizeof own_squares);
    double squares = 0;
    std::memcpy(&squares, bytes.data(), sizeof squares);
    total += squares;
  }
  return std::sqrt(total);
}

void OptimizerShare::complete_params(Collective& group, std::span<float> params) {
  state_.intact = false;
  buckets_.complete(group, params);
  state_.intact = true;
}

}  // namespace causeway::intra
