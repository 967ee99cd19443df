#include "diloco/overlap.h"

#include <cassert>
#include <cstddef>

namespace causeway::diloco {

void mix(float alpha, std::span<const float> anchor, std::span<float> base,
         std::span<float> params) {
  assert(anchor.size() == params.size() && anchor.size() == base.size());
  const float rest = 1.0F - alpha;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const float beyond = params[i] - base[i];
    base[i] = alpha * base[i] + rest * anchor[i];
    params[i] = base[i] + beyond;
  }
}

float immediate_gain(const OuterOptions& outer) {
  return outer.kind == OuterOptions::Kind::sgd ? outer.lr : outer.lr * (1.0F + outer.momentum);
}

}  // namespace causeway::diloco
