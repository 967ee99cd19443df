// The inner optimizer: AdamW (arXiv 1711.05101) over the flat span, its schedule, and global-norm
// clipping.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "diloco/maths/layout.h"
#include "intra/base/adamw_element.h"

namespace causeway::intra {

struct InnerOptions {
  enum class Schedule { constant, linear, cosine };
  float lr = 1e-3F;
  float lr_final_fraction = 0.1F;  // of lr, reached at the last step by linear and cosine
  Schedule schedule = Schedule::cosine;
  std::uint64_t warmup_steps = 100;  // linear from 0
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
  float weight_decay = 0.1F;  // decoupled; on matrices only
  float clip_norm = 1.0F;     // of the global gradient; 0: off
};

// Learning rate of global inner step `step` (0-based) of `total_steps`. Warm-up step s has (s + 1)
// / warmup_steps of lr.
float learning_rate(const InnerOptions& options, std::uint64_t step, std::uint64_t total_steps);

// For the 0-based step after the moments were zero.
AdamWFactors adamw_factors(const InnerOptions& options, std::uint64_t step, float lr);

// Elements of a flat span.
struct Range {
  std::size_t begin = 0, end = 0;
  std::size_t count() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

class AdamW {
 public:
  AdamW(const InnerOptions& options, const diloco::Layout& layout);
  // One step of the elements whose moments it has: `gradients` are multiplied by `gradient_scale`
  // (clipping) on the fly. step is 0-based, for bias correction.
  void step(std::uint64_t step, float lr, float gradient_scale, std::span<float> params,
            std::span<const float> gradients);

  // The moments that it has: of all elements, or of its parts one after the other.
  std::span<float> first_moment() { return first_moment_; }
  std::span<float> second_moment() { return second_moment_; }

  // Forgets the moments of all elements but these, which ascend. It had all.
  void keep(std::vector<Range> parts);
  // The other way: it has all again, of which only those are right that it had.
  void widen();
  bool has_all() const { return first_moment_.size() == size_; }

 private:
  // `moments`: of the parts before it.
  void step_part(const AdamWFactors& factors, const Range& part, std::size_t moments,
                 std::span<float> params, std::span<const float> gradients);

  InnerOptions options_;
  std::size_t decay_end_;  // elements before this one are matrices
  std::size_t size_;
  std::vector<Range> parts_;
  std::vector<float> first_moment_, second_moment_;
};

}  // namespace causeway::intra
