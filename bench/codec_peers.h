// What the codecs are compared with: limits of the machine, and code as one would write it first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace causeway::bench {

// One read of everything.
std::uint64_t read_all(std::span<const float> values);

// The k-th largest magnitude, with std::nth_element on the magnitudes' bits. Up to 4,096 values.
std::uint32_t kth_magnitude(std::span<const float> values, std::size_t k);
// Of any number of values.
std::uint32_t kth_magnitude_of_all(std::span<const float> values, std::size_t k);

// Error feedback with int8 in blocks of 128, one loop after the other.
void scalar_int8_feedback(std::span<const float> delta, float beta, std::span<float> residual,
                          std::span<std::int8_t> codes, std::span<float> scales);

}  // namespace causeway::bench
