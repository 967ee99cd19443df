// Softmax cross-entropy and its gradient in one job, which never writes the probabilities.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "intra/cuda/jobs/job_pointwise.h"
#include "intra/cuda/jobs/numbers.h"

namespace causeway::intra::cuda {

// losses[r] in nats, and if `gradients`: logits <- gradient_scale * (softmax - onehot(target)). A
// row of logits is `packs` packs; the columns from `vocabulary` on are ignored and their gradients
// zero.
template <typename T>
struct Classify {
  static constexpr unsigned kLanes = 512;
  struct Memory {};

  std::int64_t rows = 0, packs = 0, vocabulary = 0;
  Pack<T>* logits = nullptr;
  const std::int32_t* targets = nullptr;
  bool gradients = true;
  const BatchScalars* scalars = nullptr;
  float* losses = nullptr;

  // Logits are scaled by this for powers of two.
  static constexpr float kLog2E = 1.4426950408889634F;
  struct Exponentials {
    float top = -std::numeric_limits<float>::infinity();  // the largest logit, scaled
    float sum = 0;                                        // of exp(logit) / 2^top
  };

  // Scaled. What is no token's counts nothing.
  constexpr Floats pack(const Pack<T>* row, std::int64_t p) const {
    Floats v = unpack(row[p]);
    for (float& value : v.v) value *= kLog2E;
    if ((p + 1) * kPack <= vocabulary) return v;
    for (unsigned k = 0; k < kPack; ++k)
      if (p * kPack + k >= vocabulary) v.v[k] = -std::numeric_limits<float>::infinity();
    return v;
  }
  constexpr Exponentials of_lane(const Pack<T>* row, unsigned lane) const {
    Exponentials own;
    for (std::int64_t p = lane; p * kPack < vocabulary; p += kLanes) {
      const Floats v = pack(row, p);
      float top = own.top;
      for (const float value : v.v) top = value > top ? value : top;
      float sum = own.sum * power_of_two(own.top - top);
      for (const float value : v.v) sum += power_of_two(value - top);
      own = {top, sum};
    }
    return own;
  }

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t r) const {
    Pack<T>* row = logits + r * packs;
    const std::int64_t target = targets[r];
    const float target_logit = unpack(row[target / kPack]).v[target % kPack];
    typename Group::template PerLane<Exponentials> own;
    group.each([&](unsigned lane) { own.of(lane) = of_lane(row, lane); });
    const float top = group.max([&](unsigned lane) { return own.of(lane).top; });
    const float sum = group.sum(
        [&](unsigned lane) { return own.of(lane).sum * power_of_two(own.of(lane).top - top); });
    group.each([&](unsigned lane) {
      if (lane == 0) losses[r] = std::log(sum) + top / kLog2E - target_logit;
      if (!gradients) return;
      const float scale = scalars->gradient_scale, share = scale / sum;
      for (std::int64_t p = lane; p < packs; p += kLanes) {
        Floats v = pack(row, p);
        for (float& value : v.v) value = share * power_of_two(value - top);
        if (p == target / kPack) {
          for (unsigned k = 0; k < kPack; ++k) v.v[k] -= k == target % kPack ? scale : 0.0F;
        }
        store(v, row[p]);
      }
    });
  }
};

// result->loss += gradient_scale * the sum of the losses.
struct AddLosses {
  static constexpr unsigned kLanes = 512;
  struct Memory {};

  // As the member of other jobs of this name.
  static constexpr std::int64_t rows = 1;  // NOLINT(readability-identifier-naming)
  std::int64_t losses_count = 0;
  const float* losses = nullptr;
  const BatchScalars* scalars = nullptr;
  StepResult* result = nullptr;

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t) const {
    const double sum = group.sum([&](unsigned lane) {
      double own = 0;
      for (std::int64_t i = lane; i < losses_count; i += kLanes) own += losses[i];
      return own;
    });
    group.each([&](unsigned lane) {
      if (lane == 0) result->loss += scalars->gradient_scale * sum;
    });
  }
};

}  // namespace causeway::intra::cuda
