// Residual sum and normalisation in one pass, and the normalisation backwards. Rows are tokens.
#pragma once

#include <cmath>
#include <cstdint>

#include "intra/cuda/jobs/numbers.h"

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

// Sums down the columns of (rows, width), for the gradients of biases and norms: each stripe of
// rows on its own, then the stripes in a fixed order. No atomics, so that the bits repeat.

// Threads that keep a large GPU busy; of a partial sum each.
inline constexpr std::int64_t kColumnThreads = 192 << 10;

// Element i is pack i % packs of stripe i / packs; partial sums are (stripes, packs).
struct Stripes {
  std::int64_t rows = 0, packs = 0, stripes = 0;

  constexpr std::int64_t begin(std::int64_t stripe) const { return stripe * rows / stripes; }
  constexpr std::int64_t count() const { return stripes * packs; }
};
constexpr Stripes stripes_of(std::int64_t rows, std::int64_t packs, std::int64_t most) {
  return {rows, packs, rows < most ? rows : most};
}
constexpr Stripes stripes_of(std::int64_t rows, std::int64_t packs) {
  return stripes_of(rows, packs, kColumnThreads > packs ? kColumnThreads / packs : 1);
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

// What NormGradient and NormColumnSums do, of rows that fit into a warp's registers: everything is
// read once. Row i of the job is stripe i.
template <typename T>
struct NormBackward {
  static constexpr unsigned kLanes = 32, kPacksOfLane = 4;
  static constexpr std::int64_t kPacksMax = kLanes * kPacksOfLane;
  // As many warps as an H100 holds of it at once: in stripes of equal length, so that all of them
  // end together.
  static constexpr std::int64_t kStripesMax = 1536;
  struct Memory {};

  std::int64_t rows = 0;
  Stripes stripes;
  const Pack<T>* x = nullptr;
  const Statistics* statistics = nullptr;
  const Pack<float>* weight = nullptr;
  const Pack<T>* dy = nullptr;
  Pack<T>* gradient = nullptr;
  Pack<float>* weight_partials = nullptr;
  Pack<float>* bias_partials = nullptr;  // null: RMSNorm

  // A lane's packs are `lane`, `lane` + kLanes and so on.
  struct Row {
    Pack<T> x[kPacksOfLane], dy[kPacksOfLane], gradient[kPacksOfLane];
  };
  struct Columns {
    Floats weight[kPacksOfLane], bias[kPacksOfLane];
  };
  template <typename F>
  constexpr void each_pack(unsigned lane, const F& f) const {
    for (unsigned k = 0; k < kPacksOfLane; ++k)
      if (lane + k * kLanes < stripes.packs) f(k, std::int64_t{lane + k * kLanes});
  }
  static constexpr Floats normalised(const Statistics& of_row, Floats v) {
    for (float& value : v.v) value = (value - of_row.mean) * of_row.inverse;
    return v;
  }

  template <typename Group, typename PerLane>
  constexpr void one_row(Group& group, std::int64_t r, PerLane& columns) const {
    const Statistics own = statistics[r];
    typename Group::template PerLane<Row> loaded;
    group.each([&](unsigned lane) {
      each_pack(lane, [&](unsigned k, std::int64_t p) {
        const std::int64_t at = r * stripes.packs + p;
        loaded.of(lane).x[k] = x[at];
        loaded.of(lane).dy[k] = dy[at];
        loaded.of(lane).gradient[k] = gradient[at];
      });
    });
    const auto h = [&](unsigned lane, unsigned k) {
      return normalised(own, unpack(loaded.of(lane).x[k]));
    };
    const auto g = [&](unsigned lane, unsigned k, std::int64_t p) {
      return unpack(loaded.of(lane).dy[k]) * unpack(weight[p]);
    };
    const float g_sum = group.sum([&](unsigned lane) {
      float sum = 0;
      each_pack(lane, [&](unsigned k, std::int64_t p) { sum += total(g(lane, k, p)); });
      return sum;
    });
    const float gh_sum = group.sum([&](unsigned lane) {
      float sum = 0;
      each_pack(lane, [&](unsigned k, std::int64_t p) { sum += dot(g(lane, k, p), h(lane, k)); });
      return sum;
    });
    const auto width = static_cast<float>(stripes.packs * kPack);
    const float g_mean = bias_partials != nullptr ? g_sum / width : 0, gh_mean = gh_sum / width;
    group.each([&](unsigned lane) {
      each_pack(lane, [&](unsigned k, std::int64_t p) {
        const Floats of_dy = unpack(loaded.of(lane).dy[k]), of_g = g(lane, k, p), of_h = h(lane, k);
        Floats d = unpack(loaded.of(lane).gradient[k]);
        for (unsigned i = 0; i < kPack; ++i)
          d.v[i] += own.inverse * (of_g.v[i] - g_mean - of_h.v[i] * gh_mean);
        store(d, gradient[r * stripes.packs + p]);
        columns.of(lane).weight[k] = columns.of(lane).weight[k] + of_dy * of_h;
        columns.of(lane).bias[k] = columns.of(lane).bias[k] + of_dy;
      });
    });
  }

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t stripe) const {
    typename Group::template PerLane<Columns> columns;
    for (std::int64_t r = stripes.begin(stripe); r < stripes.begin(stripe + 1); ++r)
      one_row(group, r, columns);
    group.each([&](unsigned lane) {
      each_pack(lane, [&](unsigned k, std::int64_t p) {
        const std::int64_t at = stripe * stripes.packs + p;
        store(columns.of(lane).weight[k], weight_partials[at]);
        if (bias_partials != nullptr) store(columns.of(lane).bias[k], bias_partials[at]);
      });
    });
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
