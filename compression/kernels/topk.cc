// Three steps, of which only the first and second read the whole chunk:
//   1. the largest magnitude of each of many groups; the k-th largest of those
//   is at least a
//      lower bound on the k-th largest of all, and a close one if there are 2 k
//      groups;
//   2. collect the elements that reach it, in index order: for k = 64 some 90;
//   3. bisect among those to the exact set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/kernels/topk.cc"
#include "hwy/foreach_target.h"
//
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "compression/kernels/vector-inl.h"
#include "compression/sparsifier/topk.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::compression::HWY_NAMESPACE {
namespace {

using Tag = Integers<Wide>;
using Lanes = hn::Vec<Tag>;
using Chosen = hn::Mask<Tag>;

HWY_INLINE Lanes magnitudes_at(const float* from) {
  return magnitudes(Wide(), hn::LoadU(Wide(), from));
}

HWY_INLINE auto reaches(Lanes magnitude, std::uint32_t threshold) {
  return hn::Gt(magnitude, hn::Set(Tag(), static_cast<std::int32_t>(threshold) - 1));
}

// Bit i of the result: whether element i of 64 reaches the threshold.
// lanes_at(i): the magnitudes of the vector that begins with element i.
template <typename LanesAt>
HWY_INLINE std::uint64_t reached_bits(std::uint32_t threshold, const LanesAt& lanes_at) {
  return mask_bits<64>(Tag(),
                       [&](std::size_t i) HWY_ATTR { return reaches(lanes_at(i), threshold); });
}

// Magnitudes, filled up with zeros to a multiple of 64; at_least(0) counts
// those too.
struct Keys {
  alignas(64) std::array<std::int32_t, kChunk> of;
  std::size_t count = 0;

  HWY_INLINE void fill_up(std::size_t elements) {
    count = (elements + 63) / 64 * 64;
    std::fill(of.begin() + elements, of.begin() + count, 0);
  }

  HWY_INLINE std::uint32_t at_least(std::uint32_t threshold) const {
    const Tag d;
    const std::size_t lanes = hn::Lanes(d);
    const auto bound = hn::Set(d, static_cast<std::int32_t>(threshold));
    auto below = hn::Zero(d), below_too = hn::Zero(d);  // negative
    for (std::size_t i = 0; i < count; i += 2 * lanes) {
      const auto first = hn::Lt(hn::Load(d, of.data() + i), bound);
      const auto second = hn::Lt(hn::Load(d, of.data() + i + lanes), bound);
      below = hn::Add(below, hn::VecFromMask(d, first));
      below_too = hn::Add(below_too, hn::VecFromMask(d, second));
    }
    const std::int32_t all = hn::GetLane(hn::SumOfLanes(d, hn::Add(below, below_too)));
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(count) + all);
  }
};

struct Range {
  std::uint32_t smallest, largest;
};

// Fills `largest` with the maxima of `groups` groups that share out the chunk,
// and returns theirs.
HWY_INLINE Range group_maxima(const float* chunk, std::size_t groups, Keys& largest) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t run = kChunk / groups * 2 * lanes;  // elements that 2 * lanes groups share
  auto top = hn::Zero(d);
  auto bottom = hn::Set(d, static_cast<std::int32_t>(kInfinityBits));
  largest.count = 0;
  for (std::size_t begin = 0; begin < kChunk; begin += run) {
    auto even = hn::Zero(d), odd = hn::Zero(d);
    for (std::size_t i = begin; i < begin + run; i += 2 * lanes) {
      even = hn::Max(even, magnitudes_at(chunk + i));
      odd = hn::Max(odd, magnitudes_at(chunk + i + lanes));
    }
    hn::Store(even, d, largest.of.data() + largest.count);
    hn::Store(odd, d, largest.of.data() + largest.count + lanes);
    largest.count += 2 * lanes;
    top = hn::Max(top, hn::Max(even, odd));
    bottom = hn::Min(bottom, hn::Min(even, odd));
  }
  return {static_cast<std::uint32_t>(hn::GetLane(hn::MinOfLanes(d, bottom))),
          static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(d, top)))};
}

// A list that grows by the elements at the set bits of a word: four at a time
// whether there are that many or not, because how many there are is not to be
// predicted.
struct Indices {
  static constexpr std::size_t kAtOnce = 4;
  std::array<std::uint16_t, kChunk + kAtOnce> at;  // append() writes beyond count
  std::size_t count = 0;

  template <typename At>
  HWY_INLINE void append(std::uint64_t bits, const At& element) {
    std::size_t end = count;
    count += static_cast<std::size_t>(std::popcount(bits));
    while (end < count) {
      for (std::size_t i = 0; i < kAtOnce; ++i, bits &= bits - 1) {
        at[end + i] = element(static_cast<std::size_t>(std::countr_zero(bits)));
      }
      end += kAtOnce;
    }
  }

  // The same, of the lanes of `elements`, whole vectors at a time.
  HWY_INLINE void append(Lanes elements, Chosen chosen) {
    const hn::Rebind<std::uint16_t, Tag> d;
    hn::StoreU(hn::DemoteTo(d, hn::Compress(elements, chosen)), d, at.data() + count);
    count += hn::CountTrue(Tag(), chosen);
  }

  // Those of 64 from `from` on at the set bits of a word.
  HWY_INLINE void append_lanes(std::uint64_t bits, const std::uint16_t* from) {
    const Tag d;
    for (std::size_t i = 0; i < 64; i += hn::Lanes(d)) {
      const std::uint64_t part = bits >> i;
      const auto elements = hn::PromoteTo(d, hn::LoadU(hn::Rebind<std::uint16_t, Tag>(), from + i));
      append(elements, hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&part)));
    }
  }
};

// With vectors of 16 lanes it pays to move whole ones where many elements are
// wanted.
constexpr bool kHasWideVectors = hn::MaxLanes(Tag()) >= 16;
constexpr std::size_t kManyElements = 256;

// Meanwhile what follows the chunk in memory is fetched, which as a rule is
// wanted next: no hardware looks that far ahead, and memory would idle through
// the bisections.
HWY_INLINE void collect(const float* chunk, std::uint32_t threshold, Indices& found) {
  for (std::size_t begin = 0; begin < kChunk; begin += 64) {
    prefetch(chunk + kChunk + begin, 64);
    const auto bits = reached_bits(
        threshold, [&](std::size_t i) HWY_ATTR { return magnitudes_at(chunk + begin + i); });
    found.append(bits, [&](std::size_t i) { return static_cast<std::uint16_t>(begin + i); });
  }
}

HWY_INLINE void gather(const float* chunk, const Indices& candidates, Keys& keys) {
  for (std::size_t i = 0; i < candidates.count; ++i) {
    keys.of[i] = static_cast<std::int32_t>(magnitude_bits(chunk[candidates.at[i]]));
  }
  keys.fill_up(candidates.count);
}

// Both in one pass.
HWY_INLINE void collect_many(const float* chunk, std::uint32_t threshold, Indices& found,
                             Keys& keys) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  auto index = hn::Iota(d, 0);
  for (std::size_t begin = 0; begin < kChunk; begin += lanes) {
    prefetch(chunk + kChunk + begin, lanes);
    const Lanes magnitude = magnitudes_at(chunk + begin);
    const auto chosen = reaches(magnitude, threshold);
    hn::StoreU(hn::Compress(magnitude, chosen), d, keys.of.data() + found.count);
    found.append(index, chosen);
    index = hn::Add(index, hn::Set(d, static_cast<std::int32_t>(lanes)));
  }
  keys.fill_up(found.count);
}

HWY_INLINE void keep(const Indices& candidates, const Keys& keys, Cut cut, Indices& kept) {
  for (std::size_t begin = 0; begin < keys.count; begin += 64) {
    const auto key_at = [&](std::size_t i)
                            HWY_ATTR { return hn::Load(Tag(), keys.of.data() + begin + i); };
    const std::uint64_t above = reached_bits(cut.threshold + 1, key_at);
    const std::uint64_t equal = reached_bits(cut.threshold, key_at) & ~above;
    const std::uint64_t bits = above | cut.take_ties(equal);
    if (kHasWideVectors && candidates.count >= kManyElements) {
      kept.append_lanes(bits, candidates.at.data() + begin);
    } else {
      kept.append(bits, [&](std::size_t i) { return candidates.at[begin + i]; });
    }
  }
}

}  // namespace

void select_topk(ChunkView chunk, std::span<std::uint16_t> indices) {
  assert(!indices.empty() && indices.size() <= kChunk);
  const auto k = static_cast<std::uint32_t>(indices.size());
  const std::size_t groups =
      std::clamp(std::bit_ceil(2 * indices.size()), std::size_t{128}, kChunk);
  Keys keys;
  const auto at_least = [&](std::uint32_t threshold) { return keys.at_least(threshold); };
  const Range range = group_maxima(chunk.data(), groups, keys);
  const std::uint32_t above_all = range.largest + 1;
  const std::uint32_t bound = bisect(range.smallest, above_all, k, k + k / 8, at_least);
  Indices candidates;
  if (kHasWideVectors && k >= kManyElements) {
    collect_many(chunk.data(), bound, candidates, keys);
  } else {
    collect(chunk.data(), bound, candidates);
    gather(chunk.data(), candidates, keys);
  }
  Indices kept;
  keep(candidates, keys, cut_at(bound, above_all, k, at_least), kept);
  assert(kept.count == k);
  std::copy_n(kept.at.begin(), k, indices.begin());
}

}  // namespace causeway::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::compression {

HWY_EXPORT(select_topk);

void select_topk(ChunkView chunk, std::span<std::uint16_t> indices) {
  HWY_DYNAMIC_DISPATCH(select_topk)(chunk, indices);
}

}  // namespace causeway::compression
#endif  // HWY_ONCE
