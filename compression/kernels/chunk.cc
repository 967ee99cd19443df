// The passes over one chunk that all codecs share.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compression/kernels/chunk.cc"
#include "hwy/foreach_target.h"
//
#include "compression/base/chunk.h"
#include "compression/kernels/vector-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::compression::HWY_NAMESPACE {

double sum_of_squares(ChunkView chunk) {
  ChunkSums sums;
  for (std::size_t section = 0; section < kChunk / kSection; ++section) {
    SectionSums own;
    for (std::size_t i = section * kSection; i < (section + 1) * kSection; i += kRow) {
      own.add_row(chunk.data() + i);
    }
    sums.take(section, own);
  }
  return sums.total();
}

bool all_finite(ChunkView chunk) {
  const Wide d;
  const Integers<Wide> di;
  auto largest = hn::Zero(di);
  for (std::size_t i = 0; i < kChunk; i += hn::Lanes(d)) {
    largest = hn::Max(largest, magnitudes(d, hn::LoadU(d, chunk.data() + i)));
  }
  return hn::GetLane(hn::MaxOfLanes(di, largest)) < static_cast<std::int32_t>(kInfinityBits);
}

std::optional<double> add_decayed(const FeedbackChunk& of) {
  const FeedbackChunk chunk = of;  // whose pointers no store can change
  const Integers<Wide> di;
  auto largest = hn::Zero(di);
  ChunkSums sums;
  for (std::size_t section = 0; section < kChunk / kSection; ++section) {
    SectionSums own;
    for (std::size_t i = section * kSection; i < (section + 1) * kSection; i += kRow) {
      largest = hn::Max(largest, add_decayed_row(chunk, i, own));
    }
    sums.take(section, own);
  }
  const auto all = static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(di, largest)));
  if (all >= kInfinityBits) return {};
  return sums.total();
}

}  // namespace causeway::compression::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::compression {

HWY_EXPORT(sum_of_squares);
HWY_EXPORT(all_finite);
HWY_EXPORT(add_decayed);

double sum_of_squares(ChunkView chunk) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares)(chunk);
}

bool all_finite(ChunkView chunk) {
  return HWY_DYNAMIC_DISPATCH(all_finite)(chunk);
}

std::optional<double> add_decayed(const FeedbackChunk& chunk) {
  return HWY_DYNAMIC_DISPATCH(add_decayed)(chunk);
}

}  // namespace causeway::compression
#endif  // HWY_ONCE
