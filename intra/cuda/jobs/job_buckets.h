// Sums of gradients over ranks that travel as bfloat16 (collective/bf16_sums.h).
#pragma once

#include <cstdint>

#include "intra/cuda/jobs/numbers.h"

namespace causeway::intra::cuda {

// To the nearest.
struct RoundBucket {
  std::int64_t packs = 0;
  const Pack<float>* values = nullptr;
  Pack<Bfloat16>* rounded = nullptr;

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const { store(unpack(values[i]), rounded[i]); }
};

// sum = the sum of the ranks' parts, in their order; each of `packs` packs, one after the other.
template <typename T>
struct AddBuckets {
  std::int64_t packs = 0, ranks = 0;
  const Pack<Bfloat16>* parts = nullptr;
  Pack<T>* sum = nullptr;

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    Floats all = unpack(parts[i]);
    for (std::int64_t rank = 1; rank < ranks; ++rank) all = all + unpack(parts[rank * packs + i]);
    store(all, sum[i]);
  }
};

}  // namespace causeway::intra::cuda
