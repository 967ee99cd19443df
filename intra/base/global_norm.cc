#include "intra/base/global_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "compression/base/parallel.h"

namespace causeway::intra {

// The sums of global_norm.h, all at once.
double sum_of_squares(std::span<const float> values) {
  std::array<std::array<double, kSquareLanes>, kSquareStreams> sums{};
  const std::size_t stride = values.size() / kSquareSums * kSquareLanes;
  for (std::size_t i = 0; i < stride; i += kSquareLanes) {
    for (std::size_t stream = 0; stream < kSquareStreams; ++stream) {
      for (std::size_t lane = 0; lane < kSquareLanes; ++lane) {
        const double value = values[stream * stride + i + lane];
        sums[stream][lane] += value * value;
      }
    }
  }
  double total = 0;
  for (const auto& stream : sums) {
    for (const double sum : stream) total += sum;
  }
  for (const float value : values.subspan(kSquareStreams * stride)) {
    total += static_cast<double>(value) * value;
  }
  return total;
}

double global_norm(std::span<const float> values) {
  // One sum per block, added in block order: the same bits for any number of threads.
  const std::size_t blocks = (values.size() + kSquareBlock - 1) / kSquareBlock;
  std::vector<double> sums(blocks);
  const auto add_up = [&](std::size_t block) {
    const std::size_t begin = block * kSquareBlock;
    sums[block] =
        sum_of_squares(values.subspan(begin, std::min(kSquareBlock, values.size() - begin)));
    return true;
  };
  compression::first_failure(blocks, add_up, 1);
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

}  // namespace causeway::intra
