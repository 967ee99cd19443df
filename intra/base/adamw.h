// The inner optimizer's settings, schedule and moments, and AdamW (arXiv 1711.05101) over the flat
// span. Muon's step is in step/muon.h: it needs matrix products.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "diloco/maths/layout.h"
#include "intra/base/adamw_element.h"

namespace causeway::intra {

// The two parts of a flat span.
// Matrices come first in a layout; the first vector ends them.
inline std::size_t matrices_end(const diloco::Layout& layout) {
  for (const diloco::Segment& segment : layout.segments()) {
    if (segment.kind == diloco::SegmentClass::vector) return segment.offset;
  }
  return layout.size();
}

struct InnerOptions {
  enum class Optimizer { adamw, muon };  // muon: of the blocks' matrices; AdamW of all else
  enum class Schedule { constant, linear, cosine };
  Optimizer optimizer = Optimizer::adamw;
  float lr = 1e-3F;
  float lr_final_fraction = 0.1F;  // of lr, reached at the last step by linear and cosine
  Schedule schedule = Schedule::cosine;
  std::uint64_t warmup_steps = 100;  // linear from 0
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F;
  float momentum = 0.9F;      // of Muon
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

// The matrices that Muon steps, if it is the optimizer: those of the transformer's blocks. They lie
// side by side in a layout. Embeddings and the head are not among them: their rows are looked up
// one by one, and no step of theirs should be made orthogonal.
struct MuonMatrix {
  Range elements;  // padding included
  std::int64_t out = 0, in = 0;
};
std::vector<MuonMatrix> muon_matrices(const InnerOptions& options, const diloco::Layout& layout);

class AdamW {
 public:
  AdamW(const InnerOptions& options, const diloco::Layout& layout);

  // Called when params [begin, end) have their new values, while these are in a cache. By several
  // threads, for disjoint elements.
  using Stepped = std::function<void(std::size_t begin, std::size_t end)>;

  // One step of the elements whose moments it has, but for Muon's: `gradients` are multiplied by
  // `gradient_scale` (clipping) on the fly. step is 0-based, for bias correction.
  void step(std::uint64_t step, float lr, float gradient_scale, std::span<float> params,
            std::span<const float> gradients, const Stepped& stepped = {});

  // The moments that it has: of all elements, or of its parts one after the other. Of Muon's
  // matrices the first is their momentum, and there is no second.
  std::span<float> first_moment() { return first_moment_; }
  std::span<float> second_moment() { return second_moment_; }
  // Whose moments it has, ascending. None reaches over an end of muon().
  std::span<const Range> parts() const { return parts_; }
  // Where first_moment() has these elements, which lie in one of its parts.
  std::size_t first_moment_at(const Range& range) const;
  std::span<float> first_moment_of(const Range& range) {
    return first_moment().subspan(first_moment_at(range), range.count());
  }
  const Range& muon() const { return muon_; }  // all of Muon's matrices
  bool is_muon(const Range& part) const {
    return muon_.begin <= part.begin && part.end <= muon_.end;
  }

  // Forgets the moments of all elements but these, which become its parts. It had all.
  void keep(std::vector<Range> parts);
  // The other way: it has all again, of which only those are right that it had.
  void widen();
  bool has_all() const { return first_moment_.size() == size_; }

 private:
  // `first`, `second`: how many moments the parts before it have.
  void step_part(const AdamWFactors& factors, const Range& part, std::size_t first,
                 std::size_t second, std::span<float> params, std::span<const float> gradients,
                 const Stepped& stepped);
  std::vector<Range> all_parts() const;
  std::optional<std::size_t> second_moment_of_all(const Range& part) const;

  InnerOptions options_;
  std::size_t decay_end_;  // elements before this one are matrices
  std::size_t size_;
  Range muon_;
  std::vector<Range> parts_;
  std::vector<float> first_moment_, second_moment_;
};

}  // namespace causeway::intra
