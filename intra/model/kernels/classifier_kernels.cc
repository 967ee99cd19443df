// Softmax cross-entropy and its gradient in one pass over a row of logits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "intra/model/kernels/classifier_kernels.cc"
#include "hwy/foreach_target.h"
//
#include <cmath>

#include "hwy/highway.h"
#include "intra/model/kernels/kernels.h"
#include "intra/model/kernels/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace causeway::intra::HWY_NAMESPACE {

float cross_entropy(std::int64_t vocabulary, const float* logits, std::int32_t target) {
  const float top = max_of(vocabulary, logits);
  const float sum = sum_vectors(vocabulary, [&](auto d, std::int64_t i) HWY_ATTR {
    return hn::Exp(d, hn::Sub(hn::LoadU(d, logits + i), hn::Set(d, top)));
  });
  return std::log(sum) + top - logits[target];
}

float cross_entropy_with_gradient(std::int64_t vocabulary, float* logits, std::int32_t target,
                                  float scale) {
  const float top = max_of(vocabulary, logits);
  const float target_logit = logits[target];
  const float sum = sum_vectors(vocabulary, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto weight = hn::Exp(d, hn::Sub(hn::LoadU(d, logits + i), hn::Set(d, top)));
    hn::StoreU(weight, d, logits + i);
    return weight;
  });
  for_vectors(vocabulary, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, logits + i), hn::Set(d, scale / sum)), d, logits + i);
  });
  logits[target] -= scale;
  return std::log(sum) + top - target_logit;
}

}  // namespace causeway::intra::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace causeway::intra {

HWY_EXPORT(cross_entropy);
HWY_EXPORT(cross_entropy_with_gradient);

float cross_entropy(std::int64_t vocabulary, const float* logits, std::int32_t target) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy)(vocabulary, logits, target);
}
float cross_entropy_with_gradient(std::int64_t vocabulary, float* logits, std::int32_t target,
                                  float scale) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_with_gradient)(vocabulary, logits, target, scale);
}

}  // namespace causeway::intra
#endif  // HWY_ONCE
