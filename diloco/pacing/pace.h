// How many inner steps each round has, and which fragment of the model it exchanges: the same in
// every region, known before the run starts.
//
// Every parameter is exchanged once in k steps. With P fragments round t exchanges fragment t mod P
// alone, and a round has k / P steps (Streaming DiLoCo, arXiv 2501.18512, Algorithm 2, with evenly
// spread phases). After the last step one round without steps for each of the other fragments
// brings in what was learned since their turn.
#pragma once

#include <cstdint>
#include <optional>

#include "diloco/maths/train.h"

namespace causeway::diloco {

struct Pace {
  std::uint64_t steps = 0;      // inner steps of the run
  std::uint32_t k = 0;          // a multiple of fragments; at the start, if K is adapted
  std::uint32_t fragments = 1;  // P
  // While the inner learning rate warms up; 0: k throughout. A multiple of fragments, too.
  std::uint32_t warmup_k = 0;
  std::uint64_t warmup_steps = 0;

  // Of the round that begins after `step` inner steps; 0 after the last.
  std::uint32_t round_steps(std::uint64_t step) const { return round_steps(step, k); }
  // With another K in the place of k.
  std::uint32_t round_steps(std::uint64_t step, std::uint32_t k_now) const;
  // Of the whole run, if K is not changed on the way. At once, however many these are.
  Round rounds() const { return rounds_after(0); }
  // Likewise of these, those that begin when `step` inner steps are done, whatever K was before.
  Round rounds_after(std::uint64_t step) const;

 private:
  // Of a round that the end of the run does not shorten.
  std::uint32_t usual_steps(bool warming_up, std::uint32_t k_now) const;
};

// The outer momentum of a round whose fragment was exchanged `since` steps ago, of those that have
// `momentum` after k steps: it decays with steps, not with rounds. Nothing where that is the same.
std::optional<float> momentum_after(std::uint64_t since, std::uint32_t k, float momentum);

}  // namespace causeway::diloco
