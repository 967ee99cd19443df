#include "compression/chunk.h"

#include <array>
#include <bit>

namespace causeway::compression {

double sum_of_squares(ChunkView chunk) {
  constexpr std::size_t kLanes = 256;
  std::array<double, kLanes> lanes{};
  for (std::size_t row = 0; row < kChunk; row += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double x = chunk[row + lane];
      lanes[lane] += x * x;
    }
  }
  for (std::size_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

bool all_finite(ChunkView chunk) {
  constexpr std::uint32_t kExponent = 0x7F800000;
  std::uint32_t bad = 0;
  for (const float x : chunk) {
    bad |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x) & kExponent) == kExponent);
  }
  return bad == 0;
}

}  // namespace causeway::compression
