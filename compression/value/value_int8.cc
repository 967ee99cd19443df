// int8: per block one 16-bit scale, then one signed byte per value (docs/payload.md).
#include <algorithm>
#include <array>

#include "compression/base/bytes.h"
#include "compression/base/random.h"
#include "compression/base/scale.h"
#include "compression/value/int8.h"
#include "compression/value/value.h"

namespace causeway::compression {
namespace {

constexpr auto kLevelMax = static_cast<float>(kInt8Max);

std::uint16_t encode_block(std::span<const float> block, std::span<const float> units,
                           std::span<float> decoded, std::byte* codes) {
  const std::uint16_t scale = scale_for(largest_magnitude(block), kInt8Max, true);
  for (std::size_t i = 0; i < block.size(); ++i) {
    const float code = std::clamp(round_stochastically(block[i] / divisor_of(scale), units[i]),
                                  -kLevelMax, kLevelMax);
    codes[i] = static_cast<std::byte>(static_cast<std::int8_t>(code));
    decoded[i] = ufloat16_value(scale) * (code + 0.0F);  // no minus zero
  }
  return scale;
}

class Int8 final : public ValueFormat {
 public:
  Int8(std::size_t block, bool stochastic) : block_(block), stochastic_(stochastic) {}
  std::string spec() const override {
    return "int8,block=" + std::to_string(block_) + (stochastic_ ? ",rounding=stochastic" : "");
  }
  std::size_t bytes(std::size_t count) const override { return scale_bytes(count, block_) + count; }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey& key) const override {
    std::byte* codes = out + scale_bytes(values.size(), block_);
    if (stochastic_) {
      encode_stochastically(values, decoded, out, codes, key);
    } else {
      int8_encode(values, block_, decoded, out, codes);
    }
  }

  void encode_rest(std::span<float> values, std::byte* out, const EncodeKey& key) const override {
    if (stochastic_) return ValueFormat::encode_rest(values, out, key);
    int8_encode_rest(values, block_, out, out + scale_bytes(values.size(), block_));
  }

  std::optional<EncodeStats> encode_feedback(const FeedbackChunk& chunk, std::byte* out,
                                             const EncodeKey& key) const override {
    if (stochastic_ || !int8_feedback_takes(block_)) {
      return ValueFormat::encode_feedback(chunk, out, key);
    }
    return int8_encode_feedback(chunk, block_, out, out + scale_bytes(kChunk, block_));
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    std::fill(values.begin(), values.end(), 0.0F);
    return decode_add(bytes, 1.0F, values);
  }

  bool decode_add(const std::byte* bytes, float weight,
                  std::span<float> accumulator) const override {
    return int8_decode_add(bytes, bytes + scale_bytes(accumulator.size(), block_), block_, weight,
                           accumulator);
  }

  double norm_squared_bound(const std::byte* bytes, std::size_t count) const override {
    return norm_squared_of_scales(bytes, count, block_, kInt8Max);
  }

 private:
  void encode_stochastically(std::span<const float> values, std::span<float> decoded,
                             std::byte* scales, std::byte* codes, const EncodeKey& key) const {
    std::array<float, kChunk> units;
    draw_units(key, std::span(units).first(values.size()));
    for (std::size_t begin = 0; begin < values.size(); begin += block_) {
      const std::size_t length = std::min(block_, values.size() - begin);
      const std::uint16_t scale =
          encode_block(values.subspan(begin, length), std::span(units).subspan(begin, length),
                       decoded.subspan(begin, length), codes + begin);
      store(scales + scale_bytes(begin, block_), scale);
    }
  }

  std::size_t block_;  // values per scale
  bool stochastic_;
};

}  // namespace

std::unique_ptr<ValueFormat> make_int8(Spec& spec) {
  const std::size_t block = spec.take_block(128);
  return std::make_unique<Int8>(block, spec.take_stochastic());
}

}  // namespace causeway::compression
