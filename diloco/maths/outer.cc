#include "diloco/maths/outer.h"

#include <cassert>
#include <cstddef>

#include "diloco/maths/outer_element.h"

namespace causeway::diloco {
namespace {

void nesterov(float lr, float mu, std::span<const float> delta, std::span<float> anchor,
              std::span<float> momentum) {
  assert(momentum.size() == delta.size());
  for (std::size_t i = 0; i < delta.size(); ++i) {
    nesterov_element(lr, mu, delta[i], anchor[i], momentum[i]);
  }
}

void delayed_nesterov(const OuterOptions& options, std::uint64_t turn, std::span<const float> delta,
                      std::span<float> anchor, std::span<float> momentum) {
  assert(momentum.size() == delta.size() && options.delay > 0);
  const DelayedFactors factors = delayed_factors(options, turn);
  for (std::size_t i = 0; i < delta.size(); ++i)
    delayed_nesterov_element(factors, delta[i], anchor[i], momentum[i]);
}

void sgd(float lr, std::span<const float> delta, std::span<float> anchor) {
  for (std::size_t i = 0; i < delta.size(); ++i) sgd_element(lr, delta[i], anchor[i]);
}

}  // namespace

void pseudo_gradient(std::span<const float> anchor, std::span<const float> local,
                     std::span<float> delta) {
  assert(anchor.size() == local.size() && anchor.size() == delta.size());
  for (std::size_t i = 0; i < delta.size(); ++i)
    delta[i] = pseudo_gradient_element(anchor[i], local[i]);
}

void outer_step(const OuterOptions& options, std::span<const float> delta, std::span<float> anchor,
                std::span<float> momentum, std::uint64_t turn) {
  assert(anchor.size() == delta.size());
  switch (options.kind) {
    case OuterOptions::Kind::nesterov:
      return nesterov(options.lr, options.momentum, delta, anchor, momentum);
    case OuterOptions::Kind::delayed_nesterov:
      return delayed_nesterov(options, turn, delta, anchor, momentum);
    case OuterOptions::Kind::sgd:
      return sgd(options.lr, delta, anchor);
  }
}

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
