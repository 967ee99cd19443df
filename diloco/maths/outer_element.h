// The outer arithmetic of one element, canonical: each operation rounds on its own (the build
// forbids contraction), in the order written. That order is part of what all regions share.
// constexpr, so that nvcc compiles the same lines for the device (--expt-relaxed-constexpr).
#pragma once

#include <cstdint>

#include "diloco/maths/outer.h"

namespace causeway::diloco {

constexpr float pseudo_gradient_element(float anchor, float local) {
  return anchor - local;
}

constexpr void nesterov_element(float lr, float mu, float delta, float& anchor, float& momentum) {
  momentum = mu * momentum + delta;
  anchor -= lr * (delta + mu * momentum);
}

constexpr void sgd_element(float lr, float delta, float& anchor) {
  anchor -= lr * delta;
}

// What a turn of delayed Nesterov multiplies by.
struct DelayedFactors {
  float lr, rounds, decay, carried;
};

constexpr DelayedFactors delayed_factors(const OuterOptions& options, std::uint64_t turn) {
  const std::uint64_t place = turn % options.delay;
  return {.lr = options.lr,
          .rounds = static_cast<float>(options.delay),
          .decay = place == 0 ? options.momentum : 1.0F,
          .carried = place + 1 == options.delay ? options.momentum : 0.0F};
}

constexpr void delayed_nesterov_element(const DelayedFactors& factors, float delta, float& anchor,
                                        float& momentum) {
  const float part = delta / factors.rounds;
  momentum = factors.decay * momentum + part;
  anchor -= factors.lr * (part + factors.carried * momentum);
}

// outer.h's mix().
constexpr void mix_element(float alpha, float anchor, float& base, float& params) {
  const float beyond = params - base;
  base = alpha * base + (1.0F - alpha) * anchor;
  params = base + beyond;
}

}  // namespace causeway::diloco
