// Softmax cross-entropy and its gradient in one job, which never writes the probabilities.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "intra/cuda/jobs/numbers.h"
#include "intra/cuda/jobs/scalars.h"

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

  struct Exponentials {
    float top = -std::numeric_limits<float>::infinity();
    float sum = 0;  // of exp(logit - top)
  };

  constexpr float logit(const Floats& pack, std::int64_t p, unsigned k) const {
    const bool real = p * kPack + k < vocabulary;
    return real ? pack.v[k] : -std::numeric_limits<float>::infinity();
  }
  constexpr Exponentials of_lane(const Pack<T>* row, unsigned lane) const {
    Exponentials own;
    for (std::int64_t p = lane; p * kPack < vocabulary; p += kLanes) {
      const Floats v = unpack(row[p]);
      float top = own.top;
      for (unsigned k = 0; k < kPack; ++k) top = logit(v, p, k) > top ? logit(v, p, k) : top;
      float sum = own.sum * std::exp(own.top - top);
      for (unsigned k = 0; k < kPack; ++k) sum += std::exp(logit(v, p, k) - top);
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
        [&](unsigned lane) { return own.of(lane).sum * std::exp(own.of(lane).top - top); });
    group.each([&](unsigned lane) {
      if (lane == 0) losses[r] = std::log(sum) + top - target_logit;
      if (!gradients) return;
      const float scale = scalars->gradient_scale, share = scale / sum;
      for (std::int64_t p = lane; p < packs; p += kLanes) {
        Floats v = unpack(row[p]);
        for (unsigned k = 0; k < kPack; ++k) {
          const bool is_target = p * kPack + k == target;
          v.v[k] = share * std::exp(logit(v, p, k) - top) - (is_target ? scale : 0.0F);
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
