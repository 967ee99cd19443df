// 1bit: per block one magnitude, the mean, then one sign per value (docs/payload.md).
//
// A sign says nothing of zeros, yet a zero must decode to zero (padding stays zero). So a block
// that has zeros sends one sign only: the bit then tells the values of that sign, at their mean,
// from all others, which decode to zero. The other sign's values stay in the residual until theirs
// is the larger sum.
#include <algorithm>

#include "compression/base/bytes.h"
#include "compression/base/scale.h"
#include "compression/value/two_bit.h"
#include "compression/value/value.h"

namespace causeway::compression {
namespace {

// What a set bit means. On the wire: do not renumber.
enum Kind : std::uint32_t {
  kSigns = 0,     // set: minus the mean; clear: the mean
  kPositive = 1,  // set: the mean; clear: zero
  kNegative = 2,  // set: minus the mean; clear: zero
};

constexpr unsigned kKindBits = 2;

struct OneBitBlock {
  Kind kind = kSigns;
  std::uint16_t mean = 0;

  static OneBitBlock of(std::span<const float> block);
  bool bit(float x) const { return kind == kPositive ? x > 0 : x < 0; }
  float value(bool bit) const {
    const float magnitude = ufloat16_value(mean);
    if (kind == kSigns) return bit && mean != 0 ? -magnitude : magnitude;
    if (!bit) return 0.0F;
    return kind == kPositive ? magnitude : -magnitude;
  }
};

OneBitBlock OneBitBlock::of(std::span<const float> block) {
  const float largest = largest_magnitude(block);
  if (largest == 0.0F) return {};
  const std::uint32_t exponent = exponent_field(magnitude_bits(largest));
  std::uint64_t sum[2] = {0, 0};  // of positive and of negative values, in fixed point
  std::uint64_t count[2] = {0, 0};
  for (const float x : block) {
    if (x == 0.0F) continue;
    sum[x < 0] += fixed_point(magnitude_bits(x), exponent);
    ++count[x < 0];
  }
  if (count[0] + count[1] == block.size()) {
    return {kSigns, centroid(sum[0] + sum[1], block.size(), exponent)};
  }
  const bool negative = sum[1] > sum[0];
  return {negative ? kNegative : kPositive, centroid(sum[negative], count[negative], exponent)};
}

class OneBit final : public ValueFormat {
 public:
  explicit OneBit(std::size_t block) : block_(block) {}

  std::string spec() const override { return "1bit,block=" + std::to_string(block_); }
  std::size_t bytes(std::size_t count) const override {
    return head_bytes(count) + bytes_for_bits(count);
  }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey&) const override {
    const std::size_t count = values.size();
    BitWriter kinds(out + scale_bytes(count, block_));
    BitWriter bits(out + head_bytes(count));
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const std::size_t end = std::min(begin + block_, count);
      const OneBitBlock block = OneBitBlock::of(values.subspan(begin, end - begin));
      store(out + scale_bytes(begin, block_), block.mean);
      kinds.put(block.kind, kKindBits);
      for (std::size_t i = begin; i < end; ++i) {
        const bool bit = block.bit(values[i]);
        bits.put(bit ? 1 : 0, 1);
        decoded[i] = block.value(bit);
      }
    }
    kinds.finish();
    bits.finish();
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    const std::size_t count = values.size();
    BitReader kinds(bytes + scale_bytes(count, block_));
    BitReader bits(bytes + head_bytes(count));
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const std::size_t length = std::min(block_, count - begin);
      const auto mean = load<std::uint16_t>(bytes + scale_bytes(begin, block_));
      const OneBitBlock block{static_cast<Kind>(kinds.get(kKindBits)), mean};
      if (!decode_block(block, bits, values.subspan(begin, length))) return false;
    }
    return kinds.rest_is_zero() && bits.rest_is_zero();
  }

  double norm_squared_bound(const std::byte* bytes, std::size_t count) const override {
    return norm_squared_of_scales(bytes, count, block_, 1);
  }

 private:
  static bool decode_block(const OneBitBlock& block, BitReader& bits, std::span<float> values) {
    std::size_t set = 0;
    for (float& value : values) {
      const bool bit = bits.get(1) != 0;
      set += bit ? 1 : 0;
      value = block.value(bit);
    }
    if (block.mean > kUfloat16Max || block.kind > kNegative) return false;
    if (block.mean == 0) return block.kind == kSigns && set == 0;
    return block.kind == kSigns || (set > 0 && set < values.size());
  }

  std::size_t head_bytes(std::size_t count) const {
    const std::size_t blocks = (count + block_ - 1) / block_;
    return scale_bytes(count, block_) + bytes_for_bits(kKindBits * blocks);
  }

  std::size_t block_;  // values per mean
};

}  // namespace

std::unique_ptr<ValueFormat> make_one_bit(Spec& spec) {
  return std::make_unique<OneBit>(spec.take_block(64));
}

}  // namespace causeway::compression
