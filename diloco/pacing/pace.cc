#include "diloco/pacing/pace.h"

#include <algorithm>
#include <cmath>

namespace causeway::diloco {

namespace {

// Rounds of `length` steps that begin before `steps` of them are done.
Round rounds_before(std::uint64_t steps, std::uint32_t length) {
  return steps / length + (steps % length > 0 ? 1 : 0);
}

}  // namespace

std::uint32_t Pace::round_steps(std::uint64_t step, std::uint32_t k_now) const {
  if (step >= steps) return 0;
  const bool warming_up = warmup_k > 0 && step < warmup_steps;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(usual_steps(warming_up, k_now), steps - step));
}

std::uint32_t Pace::usual_steps(bool warming_up, std::uint32_t k_now) const {
  return std::max(1U, (warming_up ? std::min(warmup_k, k_now) : k_now) / fragments);
}

Round Pace::rounds_after(std::uint64_t step) const {
  const std::uint64_t ahead = steps - std::min(step, steps);
  const std::uint64_t warmup_end = warmup_k > 0 ? std::min(warmup_steps, steps) : 0;
  const std::uint64_t warmup = warmup_end - std::min(step, warmup_end);
  const std::uint32_t warmup_length = usual_steps(warmup > 0, k);
  const Round warmup_rounds = rounds_before(warmup, warmup_length);
  // The last of these may end after the warm-up, or after the run.
  const std::uint64_t beyond = (warmup_length - warmup % warmup_length) % warmup_length;
  const std::uint64_t left = ahead - warmup - std::min(beyond, ahead - warmup);
  return warmup_rounds + rounds_before(left, usual_steps(false, k)) + (fragments - 1);
}

// One machine computes it, so that all use the same bits.
std::optional<float> momentum_after(std::uint64_t since, std::uint32_t k, float momentum) {
  if (momentum == 0 || since == k || k == 0) return std::nullopt;
  return static_cast<float>(std::pow(momentum, static_cast<double>(since) / k));
}

}  // namespace causeway::diloco
