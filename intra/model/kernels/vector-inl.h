// Loops over vectors for the kernel files: whole vectors first, then single lanes, so that nothing
// past the end is touched. Included once per Highway target, hence the toggled guard instead of
// #pragma once.
#if defined(CAUSEWAY_INTRA_MODEL_VECTOR_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAUSEWAY_INTRA_MODEL_VECTOR_INL_H_
#undef CAUSEWAY_INTRA_MODEL_VECTOR_INL_H_
#else
#define CAUSEWAY_INTRA_MODEL_VECTOR_INL_H_
#endif

#include <cstdint>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::intra::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<float>;
using Single = hn::CappedTag<float, 1>;

// body(tag, i) for i in steps of the tag's lanes.
template <class Body>
HWY_INLINE void for_vectors(std::int64_t count, const Body& body) {
  const Wide wide;
  const Single single;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(wide, i);
  for (; i < count; ++i) body(single, i);
}

// Sum over i of value(tag, i), which returns one vector.
template <class Value>
HWY_INLINE float sum_vectors(std::int64_t count, const Value& value) {
  const Wide wide;
  const Single single;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  auto sum0 = hn::Zero(wide), sum1 = hn::Zero(wide);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    sum0 = hn::Add(sum0, value(wide, i));
    sum1 = hn::Add(sum1, value(wide, i + lanes));
  }
  for (; i + lanes <= count; i += lanes) sum0 = hn::Add(sum0, value(wide, i));
  float total = hn::GetLane(hn::SumOfLanes(wide, hn::Add(sum0, sum1)));
  for (; i < count; ++i) total += hn::GetLane(value(single, i));
  return total;
}

HWY_INLINE float max_of(std::int64_t count, const float* values) {
  const Wide wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  float largest = values[0];
  std::int64_t i = 0;
  if (count >= lanes) {
    auto top = hn::LoadU(wide, values);
    for (i = lanes; i + lanes <= count; i += lanes) top = hn::Max(top, hn::LoadU(wide, values + i));
    largest = hn::GetLane(hn::MaxOfLanes(wide, top));
  }
  for (; i < count; ++i) largest = largest < values[i] ? values[i] : largest;
  return largest;
}

// 1 / (1 + exp(-x)). Far below zero exp would overflow, which Highway's does not answer with
// infinity.
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const auto one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(hn::Max(x, hn::Set(d, -87.0F))))));
}

}  // namespace causeway::intra::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
