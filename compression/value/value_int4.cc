// int4: per block one 16-bit scale; a value is the integer from -7 to 7 nearest to its quotient by
// the scale. A code is that integer plus 7.
#include <algorithm>
#include <array>

#include "compression/base/bytes.h"
#include "compression/base/random.h"
#include "compression/base/scale.h"
#include "compression/value/int8.h"
#include "compression/value/nibbles.h"
#include "compression/value/value.h"

namespace causeway::compression {
namespace {

constexpr std::int32_t kTop = 7;  // -8 is not used: the code is symmetric

constexpr std::uint8_t code_of(std::int32_t level) {
  return static_cast<std::uint8_t>(std::clamp(level, -kTop, kTop) + kTop);
}
constexpr float value_of(std::uint8_t code, std::uint16_t scale) {
  return ufloat16_value(scale) * static_cast<float>(code - kTop);
}

class Int4 final : public ValueFormat {
 public:
  Int4(std::size_t block, bool stochastic) : block_(block), stochastic_(stochastic) {}

  std::string spec() const override {
    return "int4,block=" + std::to_string(block_) + (stochastic_ ? ",rounding=stochastic" : "");
  }
  std::size_t bytes(std::size_t count) const override {
    return scale_bytes(count, block_) + Nibbles::bytes(count);
  }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey& key) const override {
    const std::size_t count = values.size();
    std::array<float, kChunk> units;
    if (stochastic_) draw_units(key, std::span(units).first(count));
    std::array<std::uint8_t, kChunk> codes;
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const auto block = values.subspan(begin, std::min(block_, count - begin));
      const std::uint16_t scale = scale_for(largest_magnitude(block), kTop, stochastic_);
      store(out + scale_bytes(begin, block_), scale);
      quantise(block, divisor_of(scale), units.data() + begin, codes.data() + begin);
      for (std::size_t i = begin; i < begin + block.size(); ++i) {
        decoded[i] = value_of(codes[i], scale);
      }
    }
    Nibbles::pack(std::span(codes).first(count), out + scale_bytes(count, block_));
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    const std::size_t count = values.size();
    std::array<std::uint8_t, kChunk> code_buffer;
    const auto codes = std::span(code_buffer).first(count);
    if (!Nibbles::unpack(bytes + scale_bytes(count, block_), codes)) return false;
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const auto scale = load<std::uint16_t>(bytes + scale_bytes(begin, block_));
      const auto block = codes.subspan(begin, std::min(block_, count - begin));
      if (!is_canonical(scale, block)) return false;
      for (std::size_t i = begin; i < begin + block.size(); ++i) {
        values[i] = value_of(codes[i], scale);
      }
    }
    return true;
  }

  double norm_squared_bound(const std::byte* bytes, std::size_t count) const override {
    return norm_squared_of_scales(bytes, count, block_, kTop);
  }

 private:
  void quantise(std::span<const float> block, float divisor, const float* units,
                std::uint8_t* codes) const {
    if (stochastic_) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        codes[i] =
            code_of(static_cast<std::int32_t>(round_stochastically(block[i] / divisor, units[i])));
      }
    } else {
      for (std::size_t i = 0; i < block.size(); ++i) {
        codes[i] = code_of(round_quotient(block[i], divisor));
      }
    }
  }

  static bool is_canonical(std::uint16_t scale, std::span<const std::uint8_t> codes) {
    bool known = true;
    bool zero = true;
    for (const std::uint8_t code : codes) {
      known &= code <= 2 * kTop;
      zero &= code == kTop;
    }
    return scale <= scale_max(kTop) && known && (scale != 0 || zero);
  }

  std::size_t block_;  // values per scale
  bool stochastic_;
};

}  // namespace

std::unique_ptr<ValueFormat> make_int4(Spec& spec) {
  const std::size_t block = spec.take_block(64);
  return std::make_unique<Int4>(block, spec.take_stochastic());
}

}  // namespace causeway::compression
