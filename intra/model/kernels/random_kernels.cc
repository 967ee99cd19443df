// Dropout masks and normal numbers drawn by Philox, many counters at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "intra/model/kernels/random_kernels.cc"
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <cassert>
#include <cstring>

#include "hwy/highway.h"
#include "intra/model/kernels/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::intra::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A tile of 64 elements draws the 4 words of 16 counters: element e of a tile is word e / 16 of
// counter e % 16. Fixing 16, not the machine's lanes, makes the mask the same on every CPU.
using Lanes = hn::CappedTag<std::uint32_t, kDropoutTile / 4>;
using Words = hn::Vec<Lanes>;

// High and low halves of the 64-bit products.
HWY_INLINE void multiply(Lanes d, Words a, std::uint32_t multiplier, Words& high, Words& low) {
  const auto m = hn::Set(d, multiplier);
  low = hn::Mul(a, m);
#if HWY_TARGET == HWY_SCALAR
  high = hn::Set(d, static_cast<std::uint32_t>((std::uint64_t{hn::GetLane(a)} * multiplier) >> 32));
#else
  const hn::Repartition<std::uint64_t, Lanes> d64;
  const auto even = hn::MulEven(a, m);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))), m);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
#endif
}

HWY_INLINE void draw(Lanes d, PhiloxKey key, Words (&x)[4]) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    Words high0, low0, high1, low1;
    multiply(d, x[0], kPhiloxMultiplier0, high0, low0);
    multiply(d, x[2], kPhiloxMultiplier1, high1, low1);
    x[0] = hn::Xor(hn::Xor(high1, x[1]), hn::Set(d, key[0]));
    x[1] = low1;
    x[2] = hn::Xor(hn::Xor(high0, x[3]), hn::Set(d, key[1]));
    x[3] = low0;
    key[0] += kPhiloxWeyl0;
    key[1] += kPhiloxWeyl1;
  }
}

// One whole tile.
HWY_INLINE void drop_tile(const DropoutMask& mask, std::uint64_t sample,
                          std::uint32_t first_counter, float* values) {
  const Lanes d;
  const hn::RebindToFloat<Lanes> df;
  // The top 24 bits, so that the comparison can be signed.
  const auto threshold =
      hn::Set(hn::RebindToSigned<Lanes>(), static_cast<std::int32_t>(mask.probability * (1 << 24)));
  const auto scale = hn::Set(df, 1.0F / (1.0F - mask.probability));
  const auto lanes = static_cast<std::uint32_t>(hn::Lanes(d));
  for (std::uint32_t at = 0; at < kDropoutTile / 4; at += lanes) {
    Words x[4] = {hn::Iota(d, first_counter + at), hn::Set(d, mask.site),
                  hn::Set(d, static_cast<std::uint32_t>(sample)),
                  hn::Set(d, static_cast<std::uint32_t>(sample >> 32))};
    draw(d, mask.key, x);
    for (std::uint32_t word = 0; word < 4; ++word) {
      float* out = values + word * (kDropoutTile / 4) + at;
      const auto bits = hn::BitCast(hn::RebindToSigned<Lanes>(), hn::ShiftRight<8>(x[word]));
      const auto drop = hn::RebindMask(df, hn::Gt(threshold, bits));
      hn::StoreU(hn::IfThenZeroElse(drop, hn::Mul(hn::LoadU(df, out), scale)), df, out);
    }
  }
}

void apply_dropout(const DropoutMask& mask, std::uint64_t sample, std::int64_t first,
                   std::int64_t count, float* values) {
  for (std::int64_t at = 0; at < count; at += kDropoutTile) {
    const auto counter = static_cast<std::uint32_t>((first + at) / 4);
    const auto left = std::min(kDropoutTile, count - at);
    if (left == kDropoutTile) {
      drop_tile(mask, sample, counter, values + at);
    } else {
      float tile[kDropoutTile] = {};
      const auto bytes = static_cast<std::size_t>(left) * sizeof(float);
      std::memcpy(tile, values + at, bytes);
      drop_tile(mask, sample, counter, tile);
      std::memcpy(values + at, tile, bytes);
    }
  }
}

// Points of the square from -1 to 1, and their squared distances from its middle.
constexpr std::size_t kPoints = static_cast<std::size_t>(kNormalPairs);
struct Points {
  double u[kPoints], v[kPoints], s[kPoints];
};

using Doubles = hn::ScalableTag<double>;
using Double = hn::Vec<Doubles>;

// Of numbers below 2^52, by the bits of 2^52 + x.
template <class V>
HWY_INLINE Double to_double(Doubles d, V numbers) {
  const hn::RebindToUnsigned<Doubles> bits;
  const auto above = hn::Or(numbers, hn::Set(bits, 0x4330000000000000));
  return hn::Sub(hn::BitCast(d, above), hn::Set(d, 0x1p52));
}

HWY_INLINE Double coordinate(Doubles d, const std::uint32_t* words) {
  const hn::RebindToUnsigned<Doubles> bits;
  const auto numbers = hn::PromoteTo(bits, hn::LoadU(hn::Rebind<std::uint32_t, Doubles>(), words));
  return hn::Sub(hn::Mul(to_double(d, numbers), hn::Set(d, 0x1p-31)), hn::Set(d, 1.0));
}

void draw_points(PhiloxKey key, std::uint64_t first, Points& points) {
  std::uint32_t words[2][kPoints];
  const Lanes lanes;
  for (std::size_t at = 0; at < kPoints; at += hn::Lanes(lanes)) {
    Words x[4] = {hn::Iota(lanes, static_cast<std::uint32_t>(first + at)),
                  hn::Set(lanes, static_cast<std::uint32_t>(first >> 32)), hn::Zero(lanes),
                  hn::Zero(lanes)};
    draw(lanes, key, x);
    for (int i = 0; i < 2; ++i) hn::StoreU(x[i], lanes, words[i] + at);
  }
  const Doubles d;
  for (std::size_t at = 0; at < kPoints; at += hn::Lanes(d)) {
    const auto u = coordinate(d, words[0] + at), v = coordinate(d, words[1] + at);
    hn::StoreU(u, d, points.u + at);
    hn::StoreU(v, d, points.v + at);
    hn::StoreU(hn::Add(hn::Mul(u, u), hn::Mul(v, v)), d, points.s + at);
  }
}

// The polar method takes points inside the circle alone: one in five is drawn again.
void redraw_outside(PhiloxKey key, std::uint64_t first, Points& points) {
  for (std::size_t i = 0; i < kPoints; ++i) {
    const std::uint64_t index = first + i;
    for (std::uint32_t attempt = 1; points.s[i] >= 1 || points.s[i] == 0; ++attempt) {
      const auto bits = philox(
          {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), attempt, 0},
          key);
      const double u = points.u[i] = bits[0] * 0x1p-31 - 1;
      const double v = points.v[i] = bits[1] * 0x1p-31 - 1;
      points.s[i] = u * u + v * v;
    }
  }
}

// ln(x) for normal x > 0 from arithmetic alone: the C library's differs in the last bit between
// versions and CPUs, and regions that start from a seed must start from the same bits. x = 2^e m
// with m in [0.5, 1); ln m = 2 artanh((m - 1) / (m + 1)).
HWY_INLINE Double exact_log(Doubles d, Double x) {
  const hn::RebindToUnsigned<Doubles> bits;
  const auto x_bits = hn::BitCast(bits, x);
  const auto exponent = hn::Sub(to_double(d, hn::ShiftRight<52>(x_bits)), hn::Set(d, 1022.0));
  const auto fraction = hn::And(x_bits, hn::Set(bits, 0x000FFFFFFFFFFFFF));
  const auto m = hn::BitCast(d, hn::Or(fraction, hn::Set(bits, 0x3FE0000000000000)));
  const auto one = hn::Set(d, 1.0);
  const auto z = hn::Div(hn::Sub(m, one), hn::Add(m, one));  // |z| <= 1/3: 17 terms reach 2^-53
  const auto z2 = hn::Mul(z, z);
  auto sum = hn::Zero(d);
  for (int term = 35; term >= 1; term -= 2) sum = hn::Add(hn::Mul(sum, z2), hn::Set(d, 1.0 / term));
  const auto ln_m = hn::Mul(hn::Mul(hn::Set(d, 2.0), z), sum);
  return hn::Add(ln_m, hn::Mul(exponent, hn::Set(d, 0.6931471805599453)));
}

void draw_normal(PhiloxKey key, std::uint64_t first, double deviation, float* out) {
  assert(first % kPoints == 0);  // so that all counters have the same upper half
  Points points;
  draw_points(key, first, points);
  redraw_outside(key, first, points);
  const Doubles d;
  const hn::Rebind<float, Doubles> floats;
  float drawn[2][kPoints];
  for (std::size_t at = 0; at < kPoints; at += hn::Lanes(d)) {
    const auto s = hn::LoadU(d, points.s + at);
    const auto factor = hn::Sqrt(hn::Div(hn::Mul(hn::Set(d, -2.0), exact_log(d, s)), s));
    const auto store = [&](const double* coordinates, float* to) {
      const auto normal = hn::Mul(hn::LoadU(d, coordinates + at), factor);
      hn::StoreU(hn::DemoteTo(floats, hn::Mul(hn::Set(d, deviation), normal)), floats, to + at);
    };
    store(points.u, drawn[0]);
    store(points.v, drawn[1]);
  }
  for (std::size_t i = 0; i < kPoints; ++i) {
    out[2 * i] = drawn[0][i];
    out[2 * i + 1] = drawn[1][i];
  }
}

}  // namespace causeway::intra::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::intra {

HWY_EXPORT(apply_dropout);
HWY_EXPORT(draw_normal);

void apply_dropout(const DropoutMask& mask, std::uint64_t sample, std::int64_t first,
                   std::int64_t count, float* values) {
  HWY_DYNAMIC_DISPATCH(apply_dropout)(mask, sample, first, count, values);
}

void draw_normal(PhiloxKey key, std::uint64_t first, double deviation, float* out) {
  HWY_DYNAMIC_DISPATCH(draw_normal)(key, first, deviation, out);
}

}  // namespace causeway::intra
#endif  // HWY_ONCE
