#include "diloco/maths/overlap.h"

#include <cassert>
#include <cstddef>

#include "diloco/maths/outer_element.h"

namespace causeway::diloco {

void mix(float alpha, std::span<const float> anchor, std::span<float> base,
         std::span<float> params) {
  assert(anchor.size() == params.size() && anchor.size() == base.size());
  for (std::size_t i = 0; i < params.size(); ++i) mix_element(alpha, anchor[i], base[i], params[i]);
}

float immediate_gain(const OuterOptions& outer) {
  switch (outer.kind) {
    case OuterOptions::Kind::sgd:
      return outer.lr;
    case OuterOptions::Kind::nesterov:
      return outer.lr * (1.0F + outer.momentum);
    case OuterOptions::Kind::delayed_nesterov:
      return outer.lr / static_cast<float>(outer.delay);
  }
  return outer.lr;
}

}  // namespace causeway::diloco
