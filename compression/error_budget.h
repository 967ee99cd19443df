// Keeps what compression loses of each layer under a bound: where an encode lost more, the layer's
// next one uses the next codec of a ladder, which keeps more elements or more bits.
//
//   ErrorBudget budget(ladder_above("topk:k=64"), 0.85, layers);
//   each round, for each layer:
//     stats = encode with make_codec(budget.spec(layer))   (stats of its segments added up)
//     if (budget.observe(layer, stats) != Verdict::within) report layer, error, budget.spec(layer)
//
// Pure state. A payload names the codec of each segment, so receivers need not know any of this;
// but all who encode parts of one layer must observe the same stats, or they would differ in
// spec().
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compression/codec.h"

namespace causeway::compression {

class ErrorBudget {
 public:
  enum class Verdict {
    within,      // the error is at most the bound
    stepped_up,  // it was more: the layer is one rung higher from now on
    exhausted,   // it was more, and there is no higher rung
  };

  // `ladder`: at least one spec, the one that loses most first. `bound`: the largest
  // relative_squared_error() of a layer's encode, at least 0. Throws Errc::bad_spec for a spec that
  // is none.
  ErrorBudget(std::span<const std::string> ladder, double bound, std::size_t layers);

  // The spec, in full, that the layer's next encode uses.
  const std::string& spec(std::size_t layer) const;

  // What an encode of the layer with spec(layer) lost.
  Verdict observe(std::size_t layer, const EncodeStats& stats);

  // Each layer's place on the ladder, for a checkpoint.
  std::span<const std::uint8_t> rungs() const { return rungs_; }
  // False, with nothing changed, unless `rungs` are places of as many layers on this ladder.
  bool restore(std::span<const std::uint8_t> rungs);

 private:
  std::vector<std::string> ladder_;
  double bound_;
  std::vector<std::uint8_t> rungs_;
};

// `spec` and above it, each larger than the one before: two-bit top-k with k from 128 to 512,
// dense:int4, dense:int8, dense:fp32. Throws Errc::bad_spec.
std::vector<std::string> ladder_above(std::string_view spec);

}  // namespace causeway::compression
