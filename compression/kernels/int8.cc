// Blocks of symmetric int8.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/kernels/int8.cc"
#include "hwy/foreach_target.h"
//
#include <array>
#include <bit>
#include <cstring>

#include "compression/base/bytes.h"
#include "compression/base/chunk.h"
#include "compression/kernels/vector-inl.h"
#include "compression/value/int8.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::compression::HWY_NAMESPACE {
namespace {

// What a pass does with the blocks of a chunk: visit(b, begin, length) for each.
template <class Visit>
HWY_INLINE void for_blocks(std::size_t count, std::size_t block, const Visit& visit) {
  for (std::size_t begin = 0, b = 0; begin < count; begin += block, ++b) {
    visit(b, begin, HWY_MIN(block, count - begin));
  }
}

HWY_INLINE float block_maximum(const float* from, std::size_t count) {
  const Integers<Wide> di;
  auto largest = hn::Zero(di);
  std::int32_t rest = 0;
  for_vectors(count, [&](auto d, std::size_t i) HWY_ATTR {
    const auto bits = magnitudes(d, hn::LoadU(d, from + i));
    if constexpr (hn::MaxLanes(d) == hn::MaxLanes(Wide())) {
      largest = hn::Max(largest, bits);
    } else {
      rest = HWY_MAX(rest, hn::GetLane(bits));
    }
  });
  return std::bit_cast<float>(HWY_MAX(rest, hn::GetLane(hn::MaxOfLanes(di, largest))));
}

// All scales before the first code: a scale takes two divisions one after the other, which overlap
// only between blocks.
using Scales = std::array<std::uint16_t, kChunk>;
HWY_INLINE void find_scales(std::span<const float> values, std::size_t block, Scales& scales) {
  std::array<float, kChunk> largest;
  for_blocks(values.size(), block, [&](std::size_t b, std::size_t begin, std::size_t n) HWY_ATTR {
    largest[b] = block_maximum(values.data() + begin, n);
  });
  for_blocks(values.size(), block,
             [&](std::size_t b, auto, auto) { scales[b] = int8_scale(largest[b]); });
}

// round_quotient, both as an integer and as the float that is equal to it.
template <class D>
struct Rounded {
  hn::Vec<Integers<D>> code;
  hn::Vec<D> value;
};

template <class D>
HWY_INLINE Rounded<D> round_quotients(D d, hn::Vec<D> x, hn::Vec<D> divisor) {
  const Integers<D> di;
  const auto shift = hn::Set(d, kRoundingShift);
  const auto shifted = hn::Add(hn::Div(x, divisor), shift);
  return {hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, shift)), hn::Sub(shifted, shift)};
}

// keep(tag, i, x, decoded): what becomes of the values.
template <class Keep>
HWY_INLINE void encode(std::span<const float> values, std::size_t block, std::byte* scale_bytes,
                       std::byte* code_bytes, const Keep& keep) {
  Scales scales;
  find_scales(values, block, scales);
  auto* codes = reinterpret_cast<std::int8_t*>(code_bytes);
  for_blocks(values.size(), block, [&](std::size_t b, std::size_t begin, std::size_t n) HWY_ATTR {
    store(scale_bytes + b * sizeof scales[b], scales[b]);
    const float scale = ufloat16_value(scales[b]);
    const float divisor = scales[b] == 0 ? 1.0F : scale;
    for_vectors(n, [&](auto d, std::size_t offset) HWY_ATTR {
      const std::size_t i = begin + offset;
      const auto x = hn::LoadU(d, values.data() + i);
      const auto rounded = round_quotients(d, x, hn::Set(d, divisor));
      const hn::Rebind<std::int8_t, decltype(d)> d8;
      hn::StoreU(hn::DemoteTo(d8, rounded.code), d8, codes + i);
      keep(d, i, x, hn::Mul(hn::Set(d, scale), rounded.value));
    });
  });
}

HWY_INLINE bool is_canonical(std::uint16_t scale_bits, std::span<const std::int8_t> codes) {
  const hn::CappedTag<std::int8_t, 64> d;
  auto any = hn::Zero(d);
  auto unused = hn::MaskFromVec(any);
  std::int8_t any_rest = 0;
  bool unused_rest = false;
  std::size_t i = 0;
  for (; i + hn::Lanes(d) <= codes.size(); i += hn::Lanes(d)) {
    const auto code = hn::LoadU(d, codes.data() + i);
    any = hn::Or(any, code);
    unused = hn::Or(unused, hn::Eq(code, hn::Set(d, std::int8_t{-128})));
  }
  for (; i < codes.size(); ++i) {
    any_rest = static_cast<std::int8_t>(any_rest | codes[i]);
    unused_rest |= codes[i] == -128;
  }
  if (scale_bits > kInt8ScaleMax || unused_rest || !hn::AllFalse(d, unused)) return false;
  return scale_bits != 0 || (any_rest == 0 && hn::AllTrue(d, hn::Eq(any, hn::Zero(d))));
}

HWY_INLINE void decode_add_block(std::uint16_t scale_bits, const std::int8_t* codes, float weight,
                                 std::span<float> accumulator) {
  const float scale = ufloat16_value(scale_bits);
  for_vectors(accumulator.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const auto code8 = hn::LoadU(hn::Rebind<std::int8_t, decltype(d)>(), codes + i);
    const auto code = hn::ConvertTo(d, hn::PromoteTo(Integers<decltype(d)>(), code8));
    const auto value = hn::Mul(hn::Set(d, scale), code);
    const auto sum = hn::LoadU(d, accumulator.data() + i);
    hn::StoreU(hn::Add(sum, hn::Mul(hn::Set(d, weight), value)), d, accumulator.data() + i);
  });
}

// The codes of one row.
#if HWY_TARGET == HWY_AVX2
// Three packs and a permutation for all four vectors, where one by one each takes three steps.
HWY_INLINE void store_row(const hn::Vec<Integers<Wide>> (&codes)[4], std::int8_t* to) {
  const __m256i low = _mm256_packs_epi32(codes[0].raw, codes[1].raw);
  const __m256i high = _mm256_packs_epi32(codes[2].raw, codes[3].raw);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i row = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), row);
}
#else
template <std::size_t kVectors>
HWY_INLINE void store_row(const hn::Vec<Integers<Wide>> (&codes)[kVectors], std::int8_t* to) {
  const hn::Rebind<std::int8_t, Wide> d;
  for (const auto& code : codes) {
    hn::StoreU(hn::DemoteTo(d, code), d, to);
    to += hn::Lanes(d);
  }
}
#endif

// The fused pass, section by section: forming p, which finds the scales, and coding.
class FeedbackPass {
 public:
  HWY_INLINE FeedbackPass(const FeedbackChunk& chunk, std::size_t block, std::byte* codes)
      : chunk_(chunk),
        block_(block),
        blocks_(kSection / block),
        codes_(reinterpret_cast<std::int8_t*>(codes)) {}

  HWY_INLINE void form(std::size_t section) {
    const Integers<Wide> di;
    SectionSums sums;
    for_blocks(section, [&](std::size_t begin, std::uint16_t& scale) HWY_ATTR {
      auto largest = hn::Zero(di);
      for (std::size_t i = begin; i < begin + block_; i += kRow) {
        largest = hn::Max(largest, add_decayed_row(chunk_, i, sums));
      }
      const std::int32_t bits = hn::GetLane(hn::MaxOfLanes(di, largest));
      largest_ = HWY_MAX(largest_, bits);
      scale = int8_scale(std::bit_cast<float>(bits));
    });
    input_.take(section, sums);
  }

  // In two loops, each of which has registers enough.
  HWY_INLINE void code(std::size_t section) {
    for_blocks(section, [&](std::size_t begin, std::uint16_t& scale) HWY_ATTR {
      for (std::size_t i = begin; i < begin + block_; i += kRow) code_row(i, scale);
    });
    SectionSums sums;
    for (std::size_t i = section * kSection; i < (section + 1) * kSection; i += kRow) {
      sums.add_row(chunk_.residual.data() + i);
    }
    error_.take(section, sums);
  }

  HWY_INLINE std::optional<EncodeStats> finish(std::byte* scales) {
    if (largest_ >= static_cast<std::int32_t>(kInfinityBits)) return {};
    std::memcpy(scales, scales_.data(), kChunk / block_ * sizeof scales_[0]);
    return EncodeStats{input_.total(), error_.total()};
  }

 private:
  // visit(first element, scale)
  template <class Visit>
  HWY_INLINE void for_blocks(std::size_t section, const Visit& visit) {
    std::size_t begin = section * kSection;
    for (std::size_t b = section * blocks_; b < (section + 1) * blocks_; ++b, begin += block_) {
      visit(begin, scales_[b]);
    }
  }

  HWY_INLINE void code_row(std::size_t begin, std::uint16_t scale_bits) {
    const Wide d;
    const auto scale = hn::Set(d, ufloat16_value(scale_bits));
    const auto divisor = hn::Set(d, scale_bits == 0 ? 1.0F : ufloat16_value(scale_bits));
    float* row = chunk_.residual.data() + begin;
    hn::Vec<Integers<Wide>> codes[kRow / hn::MaxLanes(Wide())];
    for (auto& code : codes) {
      const auto x = hn::LoadU(d, row);
      const auto rounded = round_quotients(d, x, divisor);
      hn::StoreU(hn::Sub(x, hn::Mul(scale, rounded.value)), d, row);
      code = rounded.code;
      row += hn::Lanes(d);
    }
    store_row(codes, codes_ + begin);
  }

  FeedbackChunk chunk_;  // a copy, whose pointers no store can change
  std::size_t block_;    // elements
  std::size_t blocks_;   // per section
  std::int8_t* codes_;
  std::int32_t largest_ = 0;
  std::array<std::uint16_t, kChunk / kRow> scales_;
  ChunkSums input_, error_;
};

}  // namespace

std::optional<EncodeStats> int8_encode_feedback(const FeedbackChunk& chunk, std::size_t block,
                                                std::byte* scales, std::byte* codes) {
  constexpr std::size_t kSections = kChunk / kSection;
  FeedbackPass pass(chunk, block, codes);
  pass.form(0);
  for (std::size_t section = 0; section < kSections; ++section) {
    // One ahead, because a scale takes long to find and coding need not wait for the next.
    if (section + 1 < kSections) pass.form(section + 1);
    pass.code(section);
  }
  return pass.finish(scales);
}

void int8_encode(std::span<const float> values, std::size_t block, std::span<float> decoded,
                 std::byte* scales, std::byte* codes) {
  encode(values, block, scales, codes, [&](auto d, std::size_t i, auto, auto q) HWY_ATTR {
    hn::StoreU(q, d, decoded.data() + i);
  });
}

void int8_encode_rest(std::span<float> values, std::size_t block, std::byte* scales,
                      std::byte* codes) {
  encode(values, block, scales, codes, [&](auto d, std::size_t i, auto x, auto q) HWY_ATTR {
    hn::StoreU(hn::Sub(x, q), d, values.data() + i);
  });
}

bool int8_decode_add(const std::byte* scales, const std::byte* codes, std::size_t block,
                     float weight, std::span<float> accumulator) {
  const auto* from = reinterpret_cast<const std::int8_t*>(codes);
  bool canonical = true;
  for_blocks(accumulator.size(), block,
             [&](std::size_t b, std::size_t begin, std::size_t n) HWY_ATTR {
               const auto scale_bits = load<std::uint16_t>(scales + b * sizeof(std::uint16_t));
               canonical = canonical && is_canonical(scale_bits, {from + begin, n});
               if (!canonical) return;
               decode_add_block(scale_bits, from + begin, weight, accumulator.subspan(begin, n));
             });
  return canonical;
}

}  // namespace causeway::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::compression {

HWY_EXPORT(int8_encode);
HWY_EXPORT(int8_encode_rest);
HWY_EXPORT(int8_encode_feedback);
HWY_EXPORT(int8_decode_add);

void int8_encode(std::span<const float> values, std::size_t block, std::span<float> decoded,
                 std::byte* scales, std::byte* codes) {
  HWY_DYNAMIC_DISPATCH(int8_encode)(values, block, decoded, scales, codes);
}

void int8_encode_rest(std::span<float> values, std::size_t block, std::byte* scales,
                      std::byte* codes) {
  HWY_DYNAMIC_DISPATCH(int8_encode_rest)(values, block, scales, codes);
}

std::optional<EncodeStats> int8_encode_feedback(const FeedbackChunk& chunk, std::size_t block,
                                                std::byte* scales, std::byte* codes) {
  return HWY_DYNAMIC_DISPATCH(int8_encode_feedback)(chunk, block, scales, codes);
}

bool int8_decode_add(const std::byte* scales, const std::byte* codes, std::size_t block,
                     float weight, std::span<float> accumulator) {
  return HWY_DYNAMIC_DISPATCH(int8_decode_add)(scales, codes, block, weight, accumulator);
}

}  // namespace causeway::compression
#endif  // HWY_ONCE
