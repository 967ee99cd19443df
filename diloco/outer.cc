#include "diloco/outer.h"

#include <cassert>
#include <cstddef>

namespace causeway::diloco {
namespace {

// Each arithmetic operation below rounds on its own (the build forbids contraction), in the order
// written: that order is part of what all regions share.
void nesterov(float lr, float mu, std::span<const float> delta, std::span<float> anchor,
              std::span<float> momentum) {
  assert(momentum.size() == delta.size());
  for (std::size_t i = 0; i < delta.size(); ++i) {
    momentum[i] = mu * momentum[i] + delta[i];
    anchor[i] -= lr * (delta[i] + mu * momentum[i]);
  }
}

void delayed_nesterov(const OuterOptions& options, std::uint64_t turn, std::span<const float> delta,
                      std::span<float> anchor, std::span<float> momentum) {
  assert(momentum.size() == delta.size() && options.delay > 0);
  const std::uint64_t place = turn % options.delay;
  const float decay = place == 0 ? options.momentum : 1.0F;
  const float carried = place + 1 == options.delay ? options.momentum : 0.0F;
  const auto n = static_cast<float>(options.delay);
  for (std::size_t i = 0; i < delta.size(); ++i) {
    const float part = delta[i] / n;
    momentum[i] = decay * momentum[i] + part;
    anchor[i] -= options.lr * (part + carried * momentum[i]);
  }
}

void sgd(float lr, std::span<const float> delta, std::span<float> anchor) {
  for (std::size_t i = 0; i < delta.size(); ++i) anchor[i] -= lr * delta[i];
}

}  // namespace

void pseudo_gradient(std::span<const float> anchor, std::span<const float> local,
                     std::span<float> delta) {
  assert(anchor.size() == local.size() && anchor.size() == delta.size());
  for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = anchor[i] - local[i];
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

}  // namespace causeway::diloco
