#include "compression/value/two_bit.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace causeway::compression {
namespace {

constexpr std::size_t kPerWord = 32;

}  // namespace

bool two_bit_decode(Centroids centroids, const std::byte* codes, std::span<float> decoded) {
  std::array<float, 4> value_of;
  for (std::uint32_t code = 0; code < 4; ++code) value_of[code] = two_bit_value(code, centroids);
  TwoBitUse use;
  for (std::size_t begin = 0; begin < decoded.size(); begin += kPerWord) {
    const std::size_t count = std::min(kPerWord, decoded.size() - begin);
    std::uint64_t word = 0;
    std::memcpy(&word, codes + begin / 4, bytes_for_bits(2 * count));
    const std::uint64_t present = ~std::uint64_t{0} >> (64 - 2 * count);
    if ((word & ~present) != 0) return false;
    constexpr std::uint64_t kHighBits = 0x5555555555555555;
    const std::uint64_t low = ~word & present & kHighBits;
    use.low |= low != 0;
    use.high |= (word & kHighBits) != 0;
    use.low_negative |= (word >> 1 & low) != 0;
    for (std::size_t i = 0; i < count; ++i, word >>= 2) decoded[begin + i] = value_of[word & 3];
  }
  return use.is_canonical(centroids);
}

}  // namespace causeway::compression
