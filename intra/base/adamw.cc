#include "intra/base/adamw.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <utility>

#include "intra/base/flat_parts.h"

namespace causeway::intra {
namespace {

// One block is one task of the loops over a flat span: small enough to balance, large enough to
// stream.
constexpr std::size_t kBlock = std::size_t{1} << 16;

// The loop is bound by memory once it is vectorised: 16 bytes are read and 12 written per element.
void step_elements(const AdamWFactors& f, float decay, std::size_t count,
                   const float* __restrict gradients, float* __restrict params,
                   float* __restrict first, float* __restrict second) {
  for (std::size_t i = 0; i < count; ++i) {
    adamw_element(f, decay, gradients[i], params[i], first[i], second[i]);
  }
}

}  // namespace

float learning_rate(const InnerOptions& options, std::uint64_t step, std::uint64_t total_steps) {
  using Schedule = InnerOptions::Schedule;
  const double lr = options.lr;
  if (step < options.warmup_steps) {
    return static_cast<float>(lr * static_cast<double>(step + 1) /
                              static_cast<double>(options.warmup_steps));
  }
  if (options.schedule == Schedule::constant || total_steps <= options.warmup_steps + 1) {
    return options.lr;
  }
  // 0 at the end of the warm-up, 1 at the last step.
  const double progress =
      std::min(1.0, static_cast<double>(step - options.warmup_steps) /
                        static_cast<double>(total_steps - 1 - options.warmup_steps));
  const double remaining = options.schedule == Schedule::linear
                               ? 1 - progress
                               : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  const double final_lr = lr * options.lr_final_fraction;
  return static_cast<float>(final_lr + (lr - final_lr) * remaining);
}

AdamW::AdamW(const InnerOptions& options, const diloco::Layout& layout)
    : options_(options),
      decay_end_(matrices_end(layout)),
      size_(layout.size()),
      parts_{{0, size_}},
      first_moment_(size_),
      second_moment_(size_) {}

void AdamW::keep(std::vector<Range> parts) {
  assert(has_all());
  parts_ = std::move(parts);
  for (std::vector<float>* moment : {&first_moment_, &second_moment_}) {
    std::vector<float> kept;
    for (const Range& part : parts_) {
      const auto own = std::span(*moment).subspan(part.begin, part.count());
      kept.insert(kept.end(), own.begin(), own.end());
    }
    *moment = std::move(kept);
  }
}

void AdamW::widen() {
  if (has_all()) return;
  for (std::vector<float>* moment : {&first_moment_, &second_moment_}) {
    std::vector<float> all(size_);
    std::size_t from = 0;
    for (const Range& part : parts_) {
      std::ranges::copy(std::span(*moment).subspan(from, part.count()), &all[part.begin]);
      from += part.count();
    }
    *moment = std::move(all);
  }
  parts_ = {{0, size_}};
}

AdamWFactors adamw_factors(const InnerOptions& options, std::uint64_t step, float lr) {
  const double t = static_cast<double>(step) + 1;
  const double beta1 = options.beta1, beta2 = options.beta2;
  return {.beta1 = options.beta1,
          .beta2 = options.beta2,
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .gradient_scale = 1,
          .step_size = static_cast<float>(lr / (1 - std::pow(beta1, t))),
          .inverse_root_bc2 = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t))),
          .epsilon = options.epsilon,
          .matrix_decay = static_cast<float>(1 - static_cast<double>(lr) * options.weight_decay)};
}

void AdamW::step(std::uint64_t step, float lr, float gradient_scale, std::span<float> params,
                 std::span<const float> gradients) {
  assert(params.size() == size_ && gradients.size() == size_);
  AdamWFactors factors = adamw_factors(options_, step, lr);
  factors.gradient_scale = gradient_scale;
  std::size_t moments = 0;  // of the parts before
  for (const Range& part : parts_) {
    step_part(factors, part, moments, params, gradients);
    moments += part.count();
  }
}

void AdamW::step_part(const AdamWFactors& factors, const Range& part, std::size_t moments,
                      std::span<float> params, std::span<const float> gradients) {
  const auto step = [&](std::size_t from, std::size_t to, float decay) {
    const std::size_t moment = moments + from - part.begin;
    step_elements(factors, decay, to - from, gradients.data() + from, params.data() + from,
                  first_moment_.data() + moment, second_moment_.data() + moment);
  };
  const std::size_t blocks = (part.count() + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (blocks > 1)
  for (std::size_t block = 0; block < blocks; ++block) {
    // The block in which the matrices end is done in two parts.
    const std::size_t begin = part.begin + block * kBlock;
    const std::size_t end = std::min(begin + kBlock, part.end);
    const std::size_t middle = std::clamp(decay_end_, begin, end);
    step(begin, middle, factors.matrix_decay);
    step(middle, end, 1);
  }
}

}  // namespace causeway::intra
