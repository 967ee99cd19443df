// The outer mathematics of DiLoCo (arXiv 2311.08105, Algorithm 1): functions over spans, all
// elementwise, fp32, canonical. Sign convention: delta = anchor - local, so the outer step
// subtracts it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace causeway::diloco {

struct OuterOptions {
  enum class Kind { nesterov, sgd, delayed_nesterov };
  Kind kind = Kind::nesterov;
  float lr = 0.6F;          // eta
  float momentum = 0.9F;    // mu; unused by sgd
  std::uint32_t delay = 1;  // N of delayed_nesterov
};

// delta = anchor - local.
void pseudo_gradient(std::span<const float> anchor, std::span<const float> local,
                     std::span<float> delta);

// Nesterov as in PyTorch SGD(nesterov=True, dampening=0): buf = mu*buf + delta; anchor -=
// eta*(delta + mu*buf). (A zero buf makes the first round buf = delta.) sgd: anchor -= eta*delta;
// buf is not touched and may be empty.
//
// delayed_nesterov (arXiv 2401.09135, Algorithm 3, c = 0), for rounds that each list few of the
// regions: anchor -= eta*delta/N in every round, and momentum once in N of them, by what they came
// to: buf = mu*buf + (sum of N delta)/N, anchor -= eta*mu*buf. Together that is one Nesterov step
// on their mean. `turn` counts the rounds of this part of the model; meanwhile buf holds mu*buf and
// the part of the sum that is known, so that there is no other state.
void outer_step(const OuterOptions& options, std::span<const float> delta, std::span<float> anchor,
                std::span<float> momentum, std::uint64_t turn = 0);

}  // namespace causeway::diloco
