// Sums down the columns of (rows, width), for the gradients of biases and norms: each stripe of
// rows on its own, then the stripes in a fixed order. No atomics, so that the bits repeat.
#pragma once

#include <cstdint>

#include "intra/cuda/jobs/job_norm.h"
#include "intra/cuda/jobs/numbers.h"

namespace causeway::intra::cuda {

// Threads that keep a large GPU busy; of a partial sum each.
inline constexpr std::int64_t kColumnThreads = 192 << 10;

// Element i is pack i % packs of stripe i / packs; partial sums are (stripes, packs).
struct Stripes {
  std::int64_t rows = 0, packs = 0, stripes = 0;

  constexpr std::int64_t begin(std::int64_t stripe) const { return stripe * rows / stripes; }
  constexpr std::int64_t count() const { return stripes * packs; }
};
constexpr Stripes stripes_of(std::int64_t rows, std::int64_t packs) {
  const std::int64_t most = kColumnThreads > packs ? kColumnThreads / packs : 1;
  return {rows, packs, rows < most ? rows : most};
}

template <typename T>
struct ColumnSums {
  Stripes stripes;
  const Pack<T>* values = nullptr;
  Pack<float>* partials = nullptr;

  constexpr std::int64_t count() const { return stripes.count(); }
  constexpr void element(std::int64_t i) const {
    const std::int64_t stripe = i / stripes.packs, p = i % stripes.packs;
    Floats sum{};
    for (std::int64_t r = stripes.begin(stripe); r < stripes.begin(stripe + 1); ++r) {
      sum = sum + unpack(values[r * stripes.packs + p]);
    }
    store(sum, partials[i]);
  }
};

// dweight = sum of dy * h, dbias = sum of dy.
template <typename T>
struct NormColumnSums {
  Stripes stripes;
  const Pack<T>* x = nullptr;
  const Statistics* statistics = nullptr;
  const Pack<T>* dy = nullptr;
  Pack<float>* weight_partials = nullptr;
  Pack<float>* bias_partials = nullptr;  // null: RMSNorm

  constexpr std::int64_t count() const { return stripes.count(); }
  constexpr void element(std::int64_t i) const {
    const std::int64_t stripe = i / stripes.packs, p = i % stripes.packs;
    Floats weight{}, bias{};
    for (std::int64_t r = stripes.begin(stripe); r < stripes.begin(stripe + 1); ++r) {
      const Floats v = unpack(x[r * stripes.packs + p]), d = unpack(dy[r * stripes.packs + p]);
      const Statistics row = statistics[r];
      for (unsigned k = 0; k < kPack; ++k)
        weight.v[k] += d.v[k] * (v.v[k] - row.mean) * row.inverse;
      bias = bias + d;
    }
    store(weight, weight_partials[i]);
    if (bias_partials != nullptr) store(bias, bias_partials[i]);
  }
};

// sums[p] += the partial sums of all stripes.
struct FoldStripes {
  static constexpr unsigned kLanes = 256;  // a narrow model has some hundred rows only
  struct Memory {};

  std::int64_t rows = 0;  // packs of a row
  std::int64_t stripes = 0;
  const Pack<float>* partials = nullptr;
  Pack<float>* sums = nullptr;

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t p) const {
    typename Group::template PerLane<Floats> own;
    group.each([&](unsigned lane) {
      Floats sum{};
      for (std::int64_t stripe = lane; stripe < stripes; stripe += kLanes) {
        sum = sum + unpack(partials[stripe * rows + p]);
      }
      own.of(lane) = sum;
    });
    Floats all{};
    for (unsigned k = 0; k < kPack; ++k) {
      all.v[k] = group.sum([&](unsigned lane) { return own.of(lane).v[k]; });
    }
    group.each([&](unsigned lane) {
      if (lane == 0) store(unpack(sums[p]) + all, sums[p]);
    });
  }
};

}  // namespace causeway::intra::cuda
