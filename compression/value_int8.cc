// int8: per block one 16-bit scale, then one signed byte per value (algorithms.md 9.1).
#include <algorithm>
#include <array>
#include <cmath>

#include "compression/bytes.h"
#include "compression/formats.h"
#include "compression/int8.h"
#include "compression/random.h"
#include "compression/scale.h"

namespace causeway::compression {
namespace {

// One of the two integers around the quotient, with the quotient as the mean.
float round_stochastically(float quotient, float unit) {
  const float below = std::floor(quotient);
  const float code = below + (unit < quotient - below ? 1.0F : 0.0F);
  return std::clamp(code, static_cast<float>(-kInt8Max), static_cast<float>(kInt8Max));
}

std::uint16_t encode_stochastically(std::span<const float> block, std::span<const float> units,
                                    std::span<float> decoded, std::byte* codes) {
  const std::uint16_t scale = scale_for(largest_magnitude(block), kInt8Max, true);
  for (std::size_t i = 0; i < block.size(); ++i) {
    const float code = round_stochastically(block[i] / divisor_of(scale), units[i]);
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
    const std::size_t count = values.size();
    std::array<float, kChunk> units;
    if (stochastic_) draw_units(key, std::span(units).first(count));
    std::byte* codes = out + scale_bytes(count, block_);
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const std::size_t length = std::min(block_, count - begin);
      const auto block = values.subspan(begin, length);
      const auto to = decoded.subspan(begin, length);
      store(out + scale_bytes(begin, block_),
            stochastic_ ? encode_stochastically(block, std::span(units).subspan(begin, length), to,
                                                codes + begin)
                        : int8_encode(block, to, codes + begin));
    }
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    std::fill(values.begin(), values.end(), 0.0F);
    return decode_add(bytes, 1.0F, values);
  }

  bool decode_add(const std::byte* bytes, float weight,
                  std::span<float> accumulator) const override {
    const std::size_t count = accumulator.size();
    const std::byte* codes = bytes + scale_bytes(count, block_);
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const auto scale = load<std::uint16_t>(bytes + scale_bytes(begin, block_));
      const auto block = accumulator.subspan(begin, std::min(block_, count - begin));
      if (!int8_decode_add(scale, codes + begin, weight, block)) return false;
    }
    return true;
  }

 private:
  std::size_t block_;  // values per scale
  bool stochastic_;
};

}  // namespace

std::unique_ptr<ValueFormat> make_int8(Spec& spec) {
  const std::size_t block = spec.take_block(128);
  return std::make_unique<Int8>(block, spec.take_stochastic());
}

}  // namespace causeway::compression
