// Blocks of symmetric int8.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/kernels/int8.cc"
#include "hwy/foreach_target.h"
//
#include <bit>

#include "compression/int8.h"
#include "compression/kernels/vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::compression::HWY_NAMESPACE {
namespace {

HWY_INLINE float largest_magnitude(std::span<const float> block) {
  const Integers<Wide> di;
  auto largest = hn::Zero(di);
  std::int32_t rest = 0;
  for_vectors(block.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const auto bits = magnitudes(d, hn::LoadU(d, block.data() + i));
    if constexpr (hn::MaxLanes(d) == hn::MaxLanes(Wide())) {
      largest = hn::Max(largest, bits);
    } else {
      rest = HWY_MAX(rest, hn::GetLane(bits));
    }
  });
  return std::bit_cast<float>(HWY_MAX(rest, hn::GetLane(hn::MaxOfLanes(di, largest))));
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

// store(tag, i, x, decoded): what becomes of the values.
template <class Store>
HWY_INLINE std::uint16_t encode_block(std::span<const float> block, std::byte* codes,
                                      const Store& store) {
  const std::uint16_t scale_bits = int8_scale(largest_magnitude(block));
  const float scale = ufloat16_value(scale_bits);
  const float divisor = scale_bits == 0 ? 1.0F : scale;
  auto* out = reinterpret_cast<std::int8_t*>(codes);
  for_vectors(block.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const auto x = hn::LoadU(d, block.data() + i);
    const auto rounded = round_quotients(d, x, hn::Set(d, divisor));
    const hn::Rebind<std::int8_t, decltype(d)> d8;
    hn::StoreU(hn::DemoteTo(d8, rounded.code), d8, out + i);
    store(d, i, x, hn::Mul(hn::Set(d, scale), rounded.value));
  });
  return scale_bits;
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
    any_rest |= codes[i];
    unused_rest |= codes[i] == -128;
  }
  if (scale_bits > kInt8ScaleMax || unused_rest || !hn::AllFalse(d, unused)) return false;
  return scale_bits != 0 || (any_rest == 0 && hn::AllTrue(d, hn::Eq(any, hn::Zero(d))));
}

}  // namespace

std::uint16_t int8_encode(std::span<const float> block, std::span<float> decoded,
                          std::byte* codes) {
  return encode_block(block, codes, [&](auto d, std::size_t i, auto, auto q) HWY_ATTR {
    hn::StoreU(q, d, decoded.data() + i);
  });
}

std::uint16_t int8_encode_rest(std::span<float> block, std::byte* codes) {
  return encode_block(block, codes, [&](auto d, std::size_t i, auto x, auto q) HWY_ATTR {
    hn::StoreU(hn::Sub(x, q), d, block.data() + i);
  });
}

bool int8_decode_add(std::uint16_t scale_bits, const std::byte* codes, float weight,
                     std::span<float> accumulator) {
  const auto* from = reinterpret_cast<const std::int8_t*>(codes);
  if (!is_canonical(scale_bits, {from, accumulator.size()})) return false;
  const float scale = ufloat16_value(scale_bits);
  for_vectors(accumulator.size(), [&](auto d, std::size_t i) HWY_ATTR {
    const auto code8 = hn::LoadU(hn::Rebind<std::int8_t, decltype(d)>(), from + i);
    const auto code = hn::ConvertTo(d, hn::PromoteTo(Integers<decltype(d)>(), code8));
    const auto value = hn::Mul(hn::Set(d, scale), code);
    const auto sum = hn::LoadU(d, accumulator.data() + i);
    hn::StoreU(hn::Add(sum, hn::Mul(hn::Set(d, weight), value)), d, accumulator.data() + i);
  });
  return true;
}

}  // namespace causeway::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::compression {

HWY_EXPORT(int8_encode);
HWY_EXPORT(int8_encode_rest);
HWY_EXPORT(int8_decode_add);

std::uint16_t int8_encode(std::span<const float> block, std::span<float> decoded,
                          std::byte* codes) {
  return HWY_DYNAMIC_DISPATCH(int8_encode)(block, decoded, codes);
}

std::uint16_t int8_encode_rest(std::span<float> block, std::byte* codes) {
  return HWY_DYNAMIC_DISPATCH(int8_encode_rest)(block, codes);
}

bool int8_decode_add(std::uint16_t scale_bits, const std::byte* codes, float weight,
                     std::span<float> accumulator) {
  return HWY_DYNAMIC_DISPATCH(int8_decode_add)(scale_bits, codes, weight, accumulator);
}

}  // namespace causeway::compression
#endif  // HWY_ONCE
