// Residual sum and normalisation in one pass, and the normalisation backwards. Rows are tokens.
#pragma once

#include <cmath>
#include <cstdint>

#include "intra/cuda/jobs/numbers.h"
#include "intra/cuda/jobs/scalars.h"

namespace causeway::intra::cuda {

struct Statistics {
  float mean, inverse;  // 0 for RMSNorm; 1 / deviation
};

// sum = x + dropout(branch); normalised = norm(sum). Without a branch: norm(x).
template <typename T>
struct AddNorm {
  static constexpr unsigned kLanes = 32;
  struct Memory {};

  std::int64_t rows = 0, packs = 0;  // of a row
  const Pack<T>* x = nullptr;
  const Pack<T>* branch = nullptr;
  Dropout dropout;
  std::int64_t length = 1;  // of a sequence
  Pack<T>* sum = nullptr;
  const Pack<float>* weight = nullptr;
  const Pack<float>* bias = nullptr;  // null: RMSNorm
  float epsilon = 0;
  Statistics* statistics = nullptr;
  Pack<T>* normalised = nullptr;

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t r) const {
    const auto width = static_cast<float>(packs * kPack);
    const Pack<T>* in = x + r * packs;
    Pack<T>* out = sum + r * packs;
    const Pack<T>* values = branch == nullptr ? in : out;
    const float plain_sum = group.sum([&](unsigned lane) {
      float own = 0;
      for (std::int64_t p = lane; p < packs; p += kLanes) {
        if (branch != nullptr) {
          const Floats added = dropout.apply({length, packs}, r, p, unpack(branch[r * packs + p]));
          store(unpack(in[p]) + added, out[p]);
        }
        own += total(unpack(values[p]));
      }
      return own;
    });
    const float mean = bias == nullptr ? 0 : plain_sum / width;
    const float squares = group.sum([&](unsigned lane) {
      float own = 0;
      for (std::int64_t p = lane; p < packs; p += kLanes) {
        const Floats v = unpack(values[p]);
        for (unsigned i = 0; i < kPack; ++i) own += (v.v[i] - mean) * (v.v[i] - mean);
      }
      return own;
    });
    const float inverse = 1.0F / std::sqrt(squares / width + epsilon);
    group.each([&](unsigned lane) {
      if (lane == 0) statistics[r] = {mean, inverse};
      for (std::int64_t p = lane; p < packs; p += kLanes) {
        Floats v = unpack(values[p]);
        const Floats scale = unpack(weight[p]),
                     shift = bias == nullptr ? Floats{} : unpack(bias[p]);
        for (unsigned i = 0; i < kPack; ++i) {
          v.v[i] = (v.v[i] - mean) * inverse * scale.v[i] + shift.v[i];
        }
        store(v, normalised[r * packs + p]);
      }
    });
  }
};

// gradient += the gradient of the norm's input. With h = (x - mean) * inverse and g = dy * weight:
// inverse * (g - mean(g) - h * mean(g * h)), where RMSNorm lacks the middle term.
template <typename T>
struct NormGradient {
  static constexpr unsigned kLanes = 32;
  struct Memory {};

  std::int64_t rows = 0, packs = 0;
  const Pack<T>* x = nullptr;
  const Statistics* statistics = nullptr;
  const Pack<float>* weight = nullptr;
  bool centred = true;
  const Pack<T>* dy = nullptr;
  Pack<T>* gradient = nullptr;

  struct Sums {
    Floats g, h;
  };
  constexpr Sums sums_at(std::int64_t r, std::int64_t p) const {
    const Floats v = unpack(x[r * packs + p]), d = unpack(dy[r * packs + p]);
    const Floats scale = unpack(weight[p]);
    Sums at{};
    for (unsigned i = 0; i < kPack; ++i) {
      at.g.v[i] = d.v[i] * scale.v[i];
      at.h.v[i] = (v.v[i] - statistics[r].mean) * statistics[r].inverse;
    }
    return at;
  }

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t r) const {
    const auto width = static_cast<float>(packs * kPack);
    const float g_sum = group.sum([&](unsigned lane) {
      float own = 0;
      for (std::int64_t p = lane; p < packs; p += kLanes) own += total(sums_at(r, p).g);
      return own;
    });
    const float gh_sum = group.sum([&](unsigned lane) {
      float own = 0;
      for (std::int64_t p = lane; p < packs; p += kLanes) {
        const Sums at = sums_at(r, p);
        own += dot(at.g, at.h);
      }
      return own;
    });
    const float g_mean = centred ? g_sum / width : 0, gh_mean = gh_sum / width;
    group.each([&](unsigned lane) {
      for (std::int64_t p = lane; p < packs; p += kLanes) {
        const Sums at = sums_at(r, p);
        Floats d = unpack(gradient[r * packs + p]);
        for (unsigned i = 0; i < kPack; ++i) {
          d.v[i] += statistics[r].inverse * (at.g.v[i] - g_mean - at.h.v[i] * gh_mean);
        }
        store(d, gradient[r * packs + p]);
      }
    });
  }
};

}  // namespace causeway::intra::cuda
