// The element types of device arrays, and how they are moved: eight at a time. This header and the
// job_*.h are plain C++ whose functions are constexpr, because nvcc then compiles them for the
// device too (--expt-relaxed-constexpr) and the tests run the same lines on the CPU.
#pragma once

#include <bit>
#include <cstdint>

#include "intra/base/adamw_element.h"
#include "intra/base/bfloat16.h"
#include "intra/model/kernels/philox.h"
#ifdef __CUDA_ARCH__
#include "intra/cuda/jobs/ptx.h"
#endif

namespace causeway::intra::cuda {

// The upper half of an fp32.
struct Bfloat16 {
  std::uint16_t bits;
};

enum class Element : std::uint8_t { fp32, bf16 };
template <typename T>
inline constexpr Element kElement = Element::fp32;
template <>
inline constexpr Element kElement<Bfloat16> = Element::bf16;

// Two to a word, the first in the low half.
constexpr std::uint32_t bf16_pair(float first, float second) {
#ifdef __CUDA_ARCH__
  return ptx::cvt_rn_bf16x2_f32(second, first);
#else
  return bf16_word(first, second);
#endif
}

inline constexpr unsigned kPack = 8;

struct Floats {
  float v[kPack];
};

// Eight elements in memory. Only a copy of a whole pack is read and written in 16-byte pieces: the
// compiler takes members one by one, as each may be somebody else's too.
template <typename T>
struct Pack;
template <>
struct alignas(16) Pack<float> {
  float v[kPack];
};
template <>
struct alignas(16) Pack<Bfloat16> {
  std::uint32_t words[kPack / 2];
};

constexpr Floats unpack(const Pack<float>& from) {
  const Pack<float> pack = from;
  Floats values{};
  for (unsigned i = 0; i < kPack; ++i) values.v[i] = pack.v[i];
  return values;
}
constexpr Floats unpack(const Pack<Bfloat16>& from) {
  const Pack<Bfloat16> pack = from;
  Floats values{};
  for (unsigned i = 0; i < kPack / 2; ++i) {
    values.v[2 * i] = first_of_word(pack.words[i]);
    values.v[2 * i + 1] = second_of_word(pack.words[i]);
  }
  return values;
}

constexpr void store(const Floats& values, Pack<float>& to) {
  Pack<float> pack{};
  for (unsigned i = 0; i < kPack; ++i) pack.v[i] = values.v[i];
  to = pack;
}
constexpr void store(const Floats& values, Pack<Bfloat16>& to) {
  Pack<Bfloat16> pack{};
  for (unsigned i = 0; i < kPack / 2; ++i) {
    pack.words[i] = bf16_pair(values.v[2 * i], values.v[2 * i + 1]);
  }
  to = pack;
}
constexpr void store(float value, float& element) {
  element = value;
}
constexpr void store(float value, Bfloat16& element) {
  element.bits = static_cast<std::uint16_t>(bf16_bits(value));
}
constexpr float load(float element) {
  return element;
}
constexpr float load(Bfloat16 element) {
  return std::bit_cast<float>(std::uint32_t{element.bits} << 16);
}

constexpr Floats operator+(const Floats& a, const Floats& b) {
  Floats sum{};
  for (unsigned i = 0; i < kPack; ++i) sum.v[i] = a.v[i] + b.v[i];
  return sum;
}
constexpr Floats operator*(const Floats& a, const Floats& b) {
  Floats product{};
  for (unsigned i = 0; i < kPack; ++i) product.v[i] = a.v[i] * b.v[i];
  return product;
}
constexpr float dot(const Floats& a, const Floats& b) {
  float sum = 0;
  for (unsigned i = 0; i < kPack; ++i) sum += a.v[i] * b.v[i];
  return sum;
}
constexpr float total(const Floats& a) {
  float sum = 0;
  for (const float value : a.v) sum += value;
  return sum;
}

// What a step's jobs read and write besides arrays. It lies in device memory, because the jobs of
// one step are recorded once and replayed with other numbers.

// Of one micro-batch.
struct BatchScalars {
  PhiloxKey dropout_key{};
  std::uint64_t first_sample = 0;
  float gradient_scale = 0;  // of a row's loss
};

// Of one update.
struct UpdateScalars {
  AdamWFactors factors{};  // without the clipping, which the device knows
  float clip_norm = 0;
  PhiloxKey rounding_key{};
};

// What a step came to.
struct StepResult {
  double loss = 0;  // sum over rows of loss x gradient_scale
  double norm = 0;  // of the gradient
  float clip = 0;   // the gradient's factor; 0: the norm is not finite and nothing is updated
};

// The masks of model/kernels/kernels.h: the same for the same key, site, sample and index.
struct Dropout {
  const BatchScalars* scalars = nullptr;
  std::uint32_t site = 0;
  float probability = 0;  // of zero

  // What element `index` of sample `sequence` of the batch is multiplied by.
  constexpr float factor(std::int64_t sequence, std::int64_t index) const {
    const auto sample = scalars->first_sample + static_cast<std::uint64_t>(sequence);
    const auto tile = static_cast<std::uint32_t>(index / 64),
               e = static_cast<std::uint32_t>(index % 64);
    const PhiloxCounter draw = philox({tile * 16 + e % 16, site, static_cast<std::uint32_t>(sample),
                                       static_cast<std::uint32_t>(sample >> 32)},
                                      scalars->dropout_key);
    const auto threshold = static_cast<std::uint32_t>(probability * (1 << 24));
    // Picked by comparisons: an index that is not known at compile time moves the draw to memory.
    const std::uint32_t word = e < 32 ? (e < 16 ? draw[0] : draw[1]) : e < 48 ? draw[2] : draw[3];
    return word >> 8 < threshold ? 0.0F : 1.0F / (1.0F - probability);
  }

  // Rows of (rows, width), whose elements are numbered within their sequence and padded to tiles.
  struct Rows {
    std::int64_t length = 0, packs = 0;  // of a sequence in rows, of a row
  };
  constexpr Floats apply(const Rows& rows, std::int64_t row, std::int64_t pack,
                         Floats values) const {
    if (probability == 0) return values;
    const auto row_elements = (rows.packs * kPack + 63) / 64 * 64;
    const auto first = row % rows.length * row_elements + pack * kPack;
    for (unsigned i = 0; i < kPack; ++i) values.v[i] *= factor(row / rows.length, first + i);
    return values;
  }
};

}  // namespace causeway::intra::cuda
