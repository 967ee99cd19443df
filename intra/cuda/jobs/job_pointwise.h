// What is done to each pack on its own: embedding, activations, rotary positions, dropout,
// rounding.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "intra/cuda/jobs/numbers.h"

namespace causeway::intra::cuda {

// 2^x. On the device as its own instruction has it (two units in the last place): a softmax over a
// large vocabulary is bound by its exponentials.
constexpr float power_of_two(float x) {
#ifdef __CUDA_ARCH__
  return ptx::ex2_approx_ftz_f32(x);
#else
  return std::exp2(x);
#endif
}

template <typename Float>
constexpr Float sigmoid(Float x) {
  return 1 / (1 + std::exp(-x));
}

// gelu(x) = x * sigmoid(2u) with u = sqrt(2 / pi) (x + 0.044715 x^3): the tanh approximation (arXiv
// 1606.08415), because 1 + tanh(u) = 2 sigmoid(2u).
inline constexpr float kTwiceRootTwoOverPi = 1.5957691216057308F;
inline constexpr float kGeluCubic = 0.044715F;
template <typename Float>
constexpr Float gelu(Float x) {
  return x * sigmoid(kTwiceRootTwoOverPi * (x + kGeluCubic * x * x * x));
}
template <typename Float>
constexpr Float gelu_slope(Float x) {
  const Float s = sigmoid(kTwiceRootTwoOverPi * (x + kGeluCubic * x * x * x));
  return s + x * s * (1 - s) * kTwiceRootTwoOverPi * (1 + 3 * kGeluCubic * x * x);
}

template <typename T>
struct Gelu {
  std::int64_t packs = 0;
  const Pack<T>* x = nullptr;
  Pack<T>* y = nullptr;

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    Floats v = unpack(x[i]);
    for (float& value : v.v) value = gelu(value);
    store(v, y[i]);
  }
};

// dx = gelu'(x) dy; dx may be dy.
template <typename T>
struct GeluGradient {
  std::int64_t packs = 0;
  const Pack<T>* x = nullptr;
  const Pack<T>* dy = nullptr;
  Pack<T>* dx = nullptr;

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    const Floats v = unpack(x[i]);
    Floats d = unpack(dy[i]);
    for (unsigned k = 0; k < kPack; ++k) d.v[k] *= gelu_slope(v.v[k]);
    store(d, dx[i]);
  }
};

// y = silu(gate) * up (arXiv 2002.05202). A row of x is `packs` of gates, then as many of ups.
template <typename T>
struct Swiglu {
  std::int64_t rows = 0, packs = 0;
  const Pack<T>* x = nullptr;
  Pack<T>* y = nullptr;

  constexpr std::int64_t count() const { return rows * packs; }
  constexpr void element(std::int64_t i) const {
    const std::int64_t at = i / packs * 2 * packs + i % packs;
    const Floats gate = unpack(x[at]), up = unpack(x[at + packs]);
    Floats out{};
    for (unsigned k = 0; k < kPack; ++k) out.v[k] = gate.v[k] * sigmoid(gate.v[k]) * up.v[k];
    store(out, y[i]);
  }
};

// dx is laid out as x.
template <typename T>
struct SwigluGradient {
  std::int64_t rows = 0, packs = 0;
  const Pack<T>* x = nullptr;
  const Pack<T>* dy = nullptr;
  Pack<T>* dx = nullptr;

  constexpr std::int64_t count() const { return rows * packs; }
  constexpr void element(std::int64_t i) const {
    const std::int64_t at = i / packs * 2 * packs + i % packs;
    const Floats gate = unpack(x[at]), up = unpack(x[at + packs]), d = unpack(dy[i]);
    Floats d_gate{}, d_up{};
    for (unsigned k = 0; k < kPack; ++k) {
      const float s = sigmoid(gate.v[k]);
      const float silu = gate.v[k] * s;
      d_gate.v[k] = d.v[k] * up.v[k] * (s + silu * (1 - s));
      d_up.v[k] = d.v[k] * silu;
    }
    store(d_gate, dx[at]);
    store(d_up, dx[at + packs]);
  }
};

// The first residual stream.
template <typename T>
struct Embed {
  std::int64_t rows = 0, packs = 0, length = 1;
  const std::int32_t* tokens = nullptr;
  const Pack<float>* by_token = nullptr;
  const Pack<float>* by_position = nullptr;  // null: rotary positions
  Dropout dropout;
  Pack<T>* out = nullptr;

  constexpr std::int64_t count() const { return rows * packs; }
  constexpr void element(std::int64_t i) const {
    const std::int64_t r = i / packs, p = i % packs;
    Floats v = unpack(by_token[tokens[r] * packs + p]);
    if (by_position != nullptr) v = v + unpack(by_position[r % length * packs + p]);
    store(dropout.apply({length, packs}, r, p, v), out[i]);
  }
};

// out = dropout(in): the gradient through a dropout.
template <typename T>
struct Drop {
  std::int64_t rows = 0, packs = 0, length = 1;
  Dropout dropout;
  const Pack<T>* in = nullptr;
  Pack<T>* out = nullptr;

  constexpr std::int64_t count() const { return rows * packs; }
  constexpr void element(std::int64_t i) const {
    store(dropout.apply({length, packs}, i / packs, i % packs, unpack(in[i])), out[i]);
  }
};

// Queries and keys in place, by the angle of their position (arXiv 2104.09864; pairs are i and i +
// size / 2). Rows are (all queries, all keys, all values); direction -1 rotates back.
template <typename T>
struct Rotate {
  std::int64_t rows = 0, packs = 0, length = 1;
  std::int64_t heads = 0;               // of queries and keys
  std::int64_t half_packs = 0;          // of half a head
  const Pack<float>* cosine = nullptr;  // (length or more, half_packs)
  const Pack<float>* sine = nullptr;
  float direction = 1;
  Pack<T>* qkv = nullptr;

  constexpr std::int64_t count() const { return rows * heads * half_packs; }
  constexpr void element(std::int64_t i) const {
    const std::int64_t p = i % half_packs, head = i / half_packs % heads;
    const std::int64_t r = i / half_packs / heads;
    const Floats c = unpack(cosine[r % length * half_packs + p]);
    const Floats s = unpack(sine[r % length * half_packs + p]);
    Pack<T>& low = qkv[r * packs + head * 2 * half_packs + p];
    Pack<T>& high = (&low)[half_packs];
    const Floats a = unpack(low), b = unpack(high);
    Floats turned_a{}, turned_b{};
    for (unsigned k = 0; k < kPack; ++k) {
      turned_a.v[k] = a.v[k] * c.v[k] - direction * b.v[k] * s.v[k];
      turned_b.v[k] = b.v[k] * c.v[k] + direction * a.v[k] * s.v[k];
    }
    store(turned_a, low);
    store(turned_b, high);
  }
};

// Sixteen random bits below the last that bf16 keeps of pack i, then cut: what is left is exact in
// bf16, and its mean is the value.
constexpr Floats dithered(const PhiloxKey& key, std::int64_t i, Floats values) {
  const PhiloxCounter draw =
      philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0}, key);
  for (unsigned k = 0; k < kPack; ++k) {
    const std::uint32_t noise = draw[k / 2] >> (k % 2 * 16) & 0xFFFF;
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values.v[k]);
    if ((bits & 0x7F800000) == 0x7F800000) continue;
    values.v[k] = std::bit_cast<float>((bits + noise) & 0xFFFF0000);
  }
  return values;
}

// The parameters as what the products multiply.
template <typename T>
struct Round {
  std::int64_t packs = 0;
  const Pack<float>* values = nullptr;
  Pack<T>* rounded = nullptr;
  const PhiloxKey* dither = nullptr;  // null: to the nearest

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    const Floats value = unpack(values[i]);
    store(dither != nullptr ? dithered(*dither, i, value) : value, rounded[i]);
  }
};

}  // namespace causeway::intra::cuda
