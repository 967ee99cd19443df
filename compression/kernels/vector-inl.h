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

// A hint, which the end of the memory does not bind.
HWY_INLINE void prefetch(const float* from, std::size_t count) {
  constexpr std::size_t kLine = 64 / sizeof(float);
  for (std::size_t i = 0; i < count; i += kLine) hwy::Prefetch(from + i);
}

}  // namespace causeway::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
