// The outer mathematics of DiLoCo (arXiv 2311.08105, Algorithm 1): functions over spans, all
// elementwise, fp32, canonical. Sign convention: delta = anchor - local, so the outer step
// subtracts it.
#pragma once

#include <cstdint>
#include <span>

#include "diloco/maths/layout.h"

namespace causeway::diloco {

struct OuterOptions {
  enum class Kind { nesterov, sgd, delayed_nesterov };
  Kind kind = Kind::nesterov;
  float lr = 0.6F;          // eta
  float momentum = 0.9F;    // mu; unused by sgd
  std::uint32_t delay = 1;  // N of delayed_nesterov
  // Over whom the mean of an element goes: all participants, what a sparse payload lacks being
  // zero; or those alone whose payload has the element (intra/outer/senders.h).
  enum class Mean { all, senders };
  Mean mean = Mean::all;
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

// Hiding the exchange behind training: what a worker's parameters do while a round is under way,
// and when its record comes. In all variants anchor and outer momentum are moved by records alone,
// so that they are the same bits in every region; and each region's displacement is counted from a
// base, so that none of it is contributed twice.
//
//   synchronous  wait for the record; params <- anchor                       (arXiv 2311.08105)
//   streaming    train on for tau steps; then, in the fragment that the round exchanged, its base,
//                which is where params stood when they were contributed, becomes
//                alpha base + (1 - alpha) anchor, and params move with it    (arXiv 2501.18512,
//                where params themselves are mixed, which discards 1 - alpha of the tau steps)
//   delayed      train on for a whole round from the newest anchor, which lacks what was just
//                contributed                                                 (arXiv 2502.12996)
//   eager        as delayed, but from the anchor moved by what this region has in flight, by the
//                share of it that the last record confirmed (intra/outer/confirmed_share.h)
//                                                                            (arXiv 2502.12996,
//                where it counts for one of the regions)
struct OverlapOptions {
  enum class Variant { synchronous, streaming, delayed, eager };
  Variant variant = Variant::synchronous;
  std::uint32_t fragments = 1;  // P; more than one in streaming only
  FragmentOrder order = FragmentOrder::strided;
  float mixing = 0.25F;  // alpha
  // Where steps go on does not depend on how those before were encoded: that may be done meanwhile.
  bool encodes_beside_steps() const {
    return variant == Variant::streaming || variant == Variant::delayed;
  }
  bool operator==(const OverlapOptions&) const = default;
};

// base <- alpha * base + (1 - alpha) * anchor; params <- base + what they were beyond it.
void mix(float alpha, std::span<const float> anchor, std::span<float> base,
         std::span<float> params);

// By how much the outer step moves the anchor at once per unit of delta: eta, for Nesterov
// eta (1 + mu), for delayed Nesterov eta / N, as its momentum comes later.
float immediate_gain(const OuterOptions& outer);

}  // namespace causeway::diloco
