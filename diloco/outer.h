// The outer mathematics of DiLoCo (arXiv 2311.08105, Algorithm 1): functions over spans, all
// elementwise, fp32, canonical. Sign convention: delta = anchor - local, so the outer step
// subtracts it.
#pragma once

#include <span>
#include <string>

namespace causeway::diloco {

struct OuterOptions {
  enum class Kind { nesterov, sgd };
  Kind kind = Kind::nesterov;
  float lr = 0.6F;        // eta
  float momentum = 0.9F;  // mu; unused by sgd
};

// delta = anchor - local.
void pseudo_gradient(std::span<const float> anchor, std::span<const float> local,
                     std::span<float> delta);

// Nesterov as in PyTorch SGD(nesterov=True, dampening=0): buf = mu*buf + delta; anchor -=
// eta*(delta + mu*buf). (A zero buf makes the first round buf = delta.) sgd: anchor -= eta*delta;
// buf is not touched and may be empty.
void outer_step(const OuterOptions& options, std::span<const float> delta, std::span<float> anchor,
                std::span<float> momentum);

}  // namespace causeway::diloco
