#include "compression/value/two_bit.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "compression/base/bytes.h"
#include "compression/value/value.h"

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

// 2bit: sign and the choice between two centroids, which follow the codes (two_bit.h).

namespace {

class TwoBit final : public ValueFormat {
 public:
  std::string spec() const override { return "2bit"; }
  std::size_t bytes(std::size_t count) const override {
    return code_bytes(count) + 2 * sizeof(std::uint16_t);
  }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey&) const override {
    const Centroids centroids = two_bit_encode(values, decoded, out);
    std::byte* after = out + code_bytes(values.size());
    store(after, centroids.low);
    store(after + sizeof centroids.low, centroids.high);
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    const std::byte* after = bytes + code_bytes(values.size());
    Centroids centroids;
    centroids.low = load<std::uint16_t>(after);
    centroids.high = load<std::uint16_t>(after + sizeof centroids.low);
    return two_bit_decode(centroids, bytes, values);
  }

  double norm_squared_bound(const std::byte* bytes, std::size_t count) const override {
    const std::byte* high = bytes + code_bytes(count) + sizeof(Centroids::low);
    return norm_squared_of_scales(high, count, count, 1);
  }

 private:
  static std::size_t code_bytes(std::size_t count) { return bytes_for_bits(2 * count); }
};

}  // namespace

std::unique_ptr<ValueFormat> make_two_bit(Spec&) {
  return std::make_unique<TwoBit>();
}

}  // namespace causeway::compression
