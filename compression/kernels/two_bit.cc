// Two-bit encoding, 32 codes to a word.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/kernels/two_bit.cc"
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "compression/base/chunk.h"
#include "compression/kernels/vector-inl.h"
#include "compression/value/two_bit.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::compression::HWY_NAMESPACE {
namespace {

constexpr std::size_t kPerWord = 32;
using Units = hn::CappedTag<std::uint64_t, 8>;  // of fixed point
using Bits = hn::Rebind<std::uint32_t, Units>;
using SignedBits = hn::Rebind<std::int32_t, Units>;

// Filled up to whole words with zeros, which are in no sum and have code 0.
struct Padded {
  alignas(64) std::array<float, kChunk> values;
  std::size_t count;

  HWY_INLINE explicit Padded(std::span<const float> from)
      : count((from.size() + kPerWord - 1) / kPerWord * kPerWord) {
    std::copy(from.begin(), from.end(), values.begin());
    std::fill(values.begin() + from.size(), values.begin() + count, 0.0F);
  }
};

struct Summary {
  std::uint32_t largest;  // magnitude, as its bits
  std::size_t zeros;      // the padding included
};

HWY_INLINE Summary summary_of(const Padded& padded) {
  const Wide d;
  const Integers<Wide> di;
  auto largest = hn::Zero(di), zeros = hn::Zero(di);
  for (std::size_t i = 0; i < padded.count; i += hn::Lanes(d)) {
    const auto bits = magnitudes(d, hn::Load(d, padded.values.data() + i));
    largest = hn::Max(largest, bits);
    zeros = hn::Sub(zeros, hn::VecFromMask(di, hn::Eq(bits, hn::Zero(di))));
  }
  return {static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest))),
          static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(di, zeros)))};
}

HWY_INLINE hn::Vec<Bits> bits_at(const Padded& padded, std::size_t i) {
  const hn::RebindToFloat<Bits> d;
  return hn::BitCast(Bits(), magnitudes(d, hn::LoadU(d, padded.values.data() + i)));
}

// fixed_point of two_bit.h.
HWY_INLINE hn::Vec<Units> fixed_points(hn::Vec<Bits> bits, std::uint32_t exponent) {
  const Units d;
  const Bits d32;
  const auto field = hn::Max(hn::ShiftRight<23>(bits), hn::Set(d32, 1U));
  const auto significand = hn::Sub(bits, hn::ShiftLeft<23>(hn::Sub(field, hn::Set(d32, 1U))));
  const auto shift = hn::Min(hn::Sub(hn::Set(d32, exponent), field), hn::Set(d32, 63U));
  return hn::Shr(hn::ShiftLeft<16>(hn::PromoteTo(d, significand)), hn::PromoteTo(d, shift));
}

HWY_INLINE std::uint64_t sum_all(const Padded& padded, std::uint32_t exponent) {
  auto sum = hn::Zero(Units());
  for (std::size_t i = 0; i < padded.count; i += hn::Lanes(Units())) {
    sum = hn::Add(sum, fixed_points(bits_at(padded, i), exponent));
  }
  return hn::GetLane(hn::SumOfLanes(Units(), sum));
}

HWY_INLINE std::uint64_t sum_high(const Padded& padded, std::uint32_t exponent,
                                  std::uint32_t high_from) {
  const Units d;
  const hn::RebindToSigned<Units> di;
  const auto below = hn::Set(SignedBits(), static_cast<std::int32_t>(high_from) - 1);
  auto sum = hn::Zero(d);
  for (std::size_t i = 0; i < padded.count; i += hn::Lanes(d)) {
    const auto bits = bits_at(padded, i);
    const auto is_high = hn::Gt(hn::BitCast(SignedBits(), bits), below);
    const auto mask = hn::PromoteTo(di, hn::VecFromMask(SignedBits(), is_high));
    sum = hn::Add(sum, hn::And(fixed_points(bits, exponent), hn::BitCast(d, mask)));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

struct Word {
  std::uint32_t high = 0, negative = 0;  // one bit per value
};

HWY_INLINE Word word_at(const Padded& padded, std::size_t begin, std::uint32_t high_from) {
  const Wide d;
  const auto below = hn::Set(Integers<Wide>(), static_cast<std::int32_t>(high_from) - 1);
  const auto at = [&](std::size_t i)
                      HWY_ATTR { return hn::Load(d, padded.values.data() + begin + i); };
  const std::uint64_t high = mask_bits<kPerWord>(Integers<Wide>(), [&](std::size_t i) HWY_ATTR {
    return hn::Gt(magnitudes(d, at(i)), below);
  });
  const std::uint64_t negative =
      mask_bits<kPerWord>(d, [&](std::size_t i) HWY_ATTR { return hn::Lt(at(i), hn::Zero(d)); });
  return {static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(negative)};
}

}  // namespace

Centroids two_bit_encode(std::span<const float> values, std::span<float> decoded,
                         std::byte* codes) {
  assert(!values.empty() && values.size() <= kChunk && decoded.size() == values.size());
  const std::size_t count = values.size();
  const Padded padded(values);
  const Summary summary = summary_of(padded);
  const bool zeros = summary.zeros > padded.count - count;
  const std::uint32_t exponent = exponent_field(summary.largest);
  const std::uint64_t total = sum_all(padded, exponent);
  const std::uint32_t from = high_from(total, count, exponent, zeros);
  ClassSum high{.total = sum_high(padded, exponent, from)};
  std::array<std::uint64_t, kChunk / kPerWord> words;
  for (std::size_t i = 0; i < padded.count; i += kPerWord) {
    const Word word = word_at(padded, i, from);
    high.count += static_cast<std::uint64_t>(std::popcount(word.high));
    words[i / kPerWord] = interleave(word.high, word.negative);
  }
  std::memcpy(codes, words.data(), bytes_for_bits(2 * count));

  const Centroids centroids =
      centroids_of({total - high.total, count - high.count}, high, exponent, zeros);
  for_vectors(count, [&](auto d, std::size_t i) HWY_ATTR {
    const Integers<decltype(d)> di;
    const auto x = hn::Load(d, padded.values.data() + i);
    const auto below = hn::Set(di, static_cast<std::int32_t>(from) - 1);
    const auto is_high = hn::RebindMask(d, hn::Gt(magnitudes(d, x), below));
    const auto magnitude = hn::IfThenElse(is_high, hn::Set(d, ufloat16_value(centroids.high)),
                                          hn::Set(d, ufloat16_value(centroids.low)));
    const auto is_negative = hn::Lt(x, hn::Zero(d));
    hn::StoreU(hn::IfThenElse(is_negative, hn::Neg(magnitude), magnitude), d, decoded.data() + i);
  });
  return centroids;
}

}  // namespace causeway::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::compression {

HWY_EXPORT(two_bit_encode);

Centroids two_bit_encode(std::span<const float> values, std::span<float> decoded,
                         std::byte* codes) {
  return HWY_DYNAMIC_DISPATCH(two_bit_encode)(values, decoded, codes);
}

}  // namespace causeway::compression
#endif  // HWY_ONCE
