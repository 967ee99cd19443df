// Dropout masks drawn by Philox, many counters at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "intra/model/kernels/random_kernels.cc"
#include "hwy/foreach_target.h"
//
#include <algorithm>
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

}  // namespace causeway::intra::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::intra {

HWY_EXPORT(apply_dropout);

void apply_dropout(const DropoutMask& mask, std::uint64_t sample, std::int64_t first,
                   std::int64_t count, float* values) {
  HWY_DYNAMIC_DISPATCH(apply_dropout)(mask, sample, first, count, values);
}

}  // namespace causeway::intra
#endif  // HWY_ONCE
