// Chunks of all kinds, for tests that compare two ways to the same bits.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "compression/base/chunk.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {

// A NaN is equal to itself here, and the two zeros are not.
inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Bell-shaped, heavy-tailed, tiny, huge, with ties, mostly zeros.
inline std::vector<Floats> chunks() {
  std::vector<Floats> all{draw(gaussian_at, kChunk, 1),
                          draw(student_at, kChunk, 2),
                          draw(laplace_at, kChunk, 3, 0x1p-146),
                          draw(gaussian_at, kChunk, 4, 1e37),
                          Floats(kChunk),
                          Floats(kChunk, -3.0F)};
  Floats ties = draw(gaussian_at, kChunk, 5);
  for (float& x : ties) x = std::nearbyint(x);
  Floats sparse(kChunk);
  for (std::size_t i = 0; i < 40; ++i) sparse[mix(i) % kChunk] = i % 2 == 0 ? 1e-30F : -2.5F;
  Floats extremes = draw(gaussian_at, kChunk, 6);
  extremes[0] = std::numeric_limits<float>::max();
  extremes[1] = std::numeric_limits<float>::denorm_min();
  extremes[4095] = -std::numeric_limits<float>::max();
  all.insert(all.end(), {ties, sparse, extremes});
  return all;
}

}  // namespace causeway::compression
