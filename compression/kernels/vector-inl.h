// Vectors for the kernel files. All of a kernel's arithmetic is canonical: single IEEE operations
// (no MulAdd, no approximations), and sums only over integers or in a documented tree, so that
// every target gives the same bits. Included once per Highway target, hence the toggled guard
// instead of #pragma once.
#if defined(CAUSEWAY_COMPRESSION_KERNELS_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAUSEWAY_COMPRESSION_KERNELS_VECTOR_INL_H_
#undef CAUSEWAY_COMPRESSION_KERNELS_VECTOR_INL_H_
#else
#define CAUSEWAY_COMPRESSION_KERNELS_VECTOR_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "compression/base/chunk.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::compression::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::CappedTag<float, 16>;
using Single = hn::CappedTag<float, 1>;
template <class D>
using Integers = hn::RebindToSigned<D>;  // finite magnitudes fit, and signed lanes compare faster

// body(tag, i) for i in steps of the tag's lanes: whole vectors first, then single elements, so
// that nothing past the end is touched.
template <class Body>
HWY_INLINE void for_vectors(std::size_t count, const Body& body) {
  const Wide wide;
  const std::size_t lanes = hn::Lanes(wide);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) body(wide, i);
  for (; i < count; ++i) body(Single(), i);
}

// The bits of |x|.
template <class D>
HWY_INLINE auto magnitudes(D, hn::Vec<D> x) {
  const Integers<D> di;
  return hn::And(hn::BitCast(di, x), hn::Set(di, 0x7FFFFFFF));
}

// Bit i of the result: bit i of a mask over kCount (at most 64) elements. mask_at(i): its part that
// begins with element i.
template <std::size_t kCount, class D, class MaskAt>
HWY_INLINE std::uint64_t mask_bits(D d, const MaskAt& mask_at) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < kCount; i += hn::Lanes(d)) {
    std::uint8_t bytes[8];
    const std::size_t written = hn::StoreMaskBits(d, mask_at(i), bytes);
    for (std::size_t byte = 0; byte < written; ++byte) {
      bits |= std::uint64_t{bytes[byte]} << (i + 8 * byte);
    }
  }
  return bits;
}

// The sums of chunk.h's sum_of_squares over one section, elements 512 s to 512 s + 511.
inline constexpr std::size_t kSection = 512;
inline constexpr std::size_t kRow = 32;  // elements, one for each of a section's sums

class SectionSums {
 public:
  HWY_INLINE SectionSums() {
    for (auto& sum : sums_) sum = hn::Zero(Doubles());
  }

  // Rows in order.
  HWY_INLINE void add_row(const float* row) {
    const Floats d;
    for (std::size_t i = 0; i < kVectors; ++i) add(i, hn::LoadU(d, row + i * hn::Lanes(d)));
  }

  // Elements `begin` on of a row, which are in a register: reading what was stored a moment ago, in
  // halves, takes longer than all else.
  HWY_INLINE void add_vector(std::size_t begin, hn::Vec<Wide> x) {
    const Floats d;
    const std::size_t i = begin / hn::Lanes(d);
    add(i, hn::LowerHalf(d, x));
#if HWY_TARGET != HWY_SCALAR
    add(i + 1, hn::UpperHalf(d, x));
#endif
  }

  HWY_INLINE void store(double* to) const {
    const Doubles d;
    for (std::size_t i = 0; i < kVectors; ++i) hn::StoreU(sums_[i], d, to + i * hn::Lanes(d));
  }

 private:
  using Doubles = hn::CappedTag<double, 8>;
  using Floats = hn::Rebind<float, Doubles>;
  static constexpr std::size_t kVectors = kRow / hn::MaxLanes(Doubles());

  HWY_INLINE void add(std::size_t i, hn::Vec<Floats> x) {
    const auto wide = hn::PromoteTo(Doubles(), x);
    sums_[i] = hn::Add(sums_[i], hn::Mul(wide, wide));
  }

  hn::Vec<Doubles> sums_[kVectors];
};

// The sums of a whole chunk.
struct ChunkSums {
  static constexpr std::size_t kCount = kChunk / kSection * kRow;
  alignas(64) double of[kCount];

  HWY_INLINE void take(std::size_t section, const SectionSums& sums) {
    sums.store(of + section * kRow);
  }
  HWY_INLINE double total() {
    for (std::size_t half = kCount / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) of[i] += of[i + half];
    }
    return of[0];
  }
};

// A hint, which the end of the memory does not bind.
HWY_INLINE void prefetch(const float* from, std::size_t count) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t i = 0; i < count; i += kLine) hwy::Prefetch(from + i);
}

// p = beta * residual + delta for one row, in place, and into the sums; the magnitudes of p, lane
// by lane the largest. What lies ahead is fetched; no hardware looks beyond the next page.
HWY_INLINE hn::Vec<Integers<Wide>> add_decayed_row(FeedbackChunk chunk, std::size_t begin,
                                                   SectionSums& sums) {
  constexpr std::size_t kAhead = 1024;
  const Wide d;
  const float* HWY_RESTRICT delta = chunk.delta.data() + begin;
  float* HWY_RESTRICT residual = chunk.residual.data() + begin;
  const auto decay = hn::Set(d, chunk.beta);
  auto largest = hn::Zero(Integers<Wide>());
  prefetch(delta + kAhead, kRow);
  prefetch(residual + kAhead, kRow);
  for (std::size_t i = 0; i < kRow; i += hn::Lanes(d)) {
    const auto decayed = hn::Mul(decay, hn::LoadU(d, residual + i));
    const auto p = hn::Add(decayed, hn::LoadU(d, delta + i));
    hn::StoreU(p, d, residual + i);
    sums.add_vector(i, p);
    largest = hn::Max(largest, magnitudes(d, p));
  }
  return largest;
}

}  // namespace causeway::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
