// What a step's jobs read and write besides arrays. It lies in device memory, because the jobs of
// one step are recorded once and replayed with other numbers.
#pragma once

#include <cstdint>

#include "intra/base/adamw_element.h"
#include "intra/cuda/jobs/numbers.h"
#include "intra/model/kernels/philox.h"

namespace causeway::intra::cuda {

// Of one micro-batch.
struct BatchScalars {
  PhiloxKey dropout_key{};
  std::uint64_t first_sample = 0;
  float gradient_scale = 0;  // of a row's loss
};

// Of one update.
struct UpdateScalars {
  AdamWFactors factors{};  // without the clipping, which the device knows
  float clip_norm = 0;
  PhiloxKey rounding_key{};
};

// What a step came to.
struct StepResult {
  double loss = 0;  // sum over rows of loss x gradient_scale
  double norm = 0;  // of the gradient
  float clip = 0;   // the gradient's factor; 0: the norm is not finite and nothing is updated
};

// The masks of model/kernels/kernels.h: the same for the same key, site, sample and index.
struct Dropout {
  const BatchScalars* scalars = nullptr;
  std::uint32_t site = 0;
  float probability = 0;  // of zero

  // What element `index` of sample `sequence` of the batch is multiplied by.
  constexpr float factor(std::int64_t sequence, std::int64_t index) const {
    const auto sample = scalars->first_sample + static_cast<std::uint64_t>(sequence);
    const auto tile = static_cast<std::uint32_t>(index / 64),
               e = static_cast<std::uint32_t>(index % 64);
    const PhiloxCounter draw = philox({tile * 16 + e % 16, site, static_cast<std::uint32_t>(sample),
                                       static_cast<std::uint32_t>(sample >> 32)},
                                      scalars->dropout_key);
    const auto threshold = static_cast<std::uint32_t>(probability * (1 << 24));
    return draw[e / 16] >> 8 < threshold ? 0.0F : 1.0F / (1.0F - probability);
  }

  // Rows of (rows, width), whose elements are numbered within their sequence and padded to tiles.
  struct Rows {
    std::int64_t length = 0, packs = 0;  // of a sequence in rows, of a row
  };
  constexpr Floats apply(const Rows& rows, std::int64_t row, std::int64_t pack,
                         Floats values) const {
    if (probability == 0) return values;
    const auto row_elements = (rows.packs * kPack + 63) / 64 * 64;
    const auto first = row % rows.length * row_elements + pack * kPack;
    for (unsigned i = 0; i < kPack; ++i) values.v[i] *= factor(row / rows.length, first + i);
    return values;
  }
};

}  // namespace causeway::intra::cuda
