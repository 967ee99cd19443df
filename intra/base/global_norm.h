// The length of a vector, for clipping gradients and for choosing codecs.
#pragma once

#include <cstddef>
#include <span>

namespace causeway::intra {

// The tree of global_norm(): blocks of 2^16 elements, each of 16 sums. Sum 4 s + l of a block adds
// the squares of elements l, l + 4, l + 8, ... of its quarter s; then they are added in order, and
// the blocks. constexpr, so that nvcc compiles the same lines for the device
// (--expt-relaxed-constexpr).
inline constexpr std::size_t kSquareBlock = std::size_t{1} << 16;
// Four streams through the block keep more reads in flight than one does (1.5 times the rate on the
// machine this was written on), and four sums in each let the compiler vectorise without changing
// their order.
inline constexpr std::size_t kSquareStreams = 4, kSquareLanes = 4;
inline constexpr std::size_t kSquareSums = kSquareStreams * kSquareLanes;

// The own sum `index` of a block of so many elements, a multiple of kSquareSums.
constexpr double square_sum(const float* block, std::size_t elements, std::size_t index) {
  const std::size_t stride = elements / kSquareStreams;
  const float* values = block + index / kSquareLanes * stride + index % kSquareLanes;
  double sum = 0;
#ifdef __CUDA_ARCH__  // many reads are under way at once
#pragma unroll 16
#endif
  for (std::size_t i = 0; i < stride; i += kSquareLanes) {
    const double value = values[i];
    sum += value * value;
  }
  return sum;
}

// Of one block, or less.
double sum_of_squares(std::span<const float> block);

// sqrt(sum of squares), summed in double in a fixed order.
double global_norm(std::span<const float> values);

}  // namespace causeway::intra
