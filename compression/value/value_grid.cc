// int4, nf4, e2m1, e3m0, ternary: per block one 16-bit scale, then the codes of a grid's levels.
#include <array>

#include "compression/base/bytes.h"
#include "compression/base/random.h"
#include "compression/base/scale.h"
#include "compression/value/grid.h"
#include "compression/value/packing.h"
#include "compression/value/value_formats.h"

namespace causeway::compression {
namespace {

template <typename Levels, typename Packing>
class GridFormat final : public ValueFormat {
 public:
  GridFormat(const char* name, std::size_t block, bool stochastic)
      : name_(name), block_(block), stochastic_(stochastic) {}

  std::string spec() const override {
    return name_ + ",block=" + std::to_string(block_) + (stochastic_ ? ",rounding=stochastic" : "");
  }
  std::size_t bytes(std::size_t count) const override {
    return scale_bytes(count, block_) + Packing::bytes(count);
  }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey& key) const override {
    const std::size_t count = values.size();
    std::array<float, kChunk> units;
    if (stochastic_) draw_units(key, std::span(units).first(count));
    std::array<std::uint8_t, kChunk> codes;
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const auto block = values.subspan(begin, std::min(block_, count - begin));
      const std::uint16_t scale = scale_for(largest_magnitude(block), Levels::kTop, stochastic_);
      store(out + scale_bytes(begin, block_), scale);
      quantise(block, scale, units.data() + begin, codes.data() + begin);
      for (std::size_t i = begin; i < begin + block.size(); ++i) {
        decoded[i] = ufloat16_value(scale) * Levels::kLevels[codes[i]];
      }
    }
    Packing::pack(std::span(codes).first(count), out + scale_bytes(count, block_));
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    const std::size_t count = values.size();
    std::array<std::uint8_t, kChunk> code_buffer;
    const auto codes = std::span(code_buffer).first(count);
    if (!Packing::unpack(bytes + scale_bytes(count, block_), codes)) return false;
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const auto scale = load<std::uint16_t>(bytes + scale_bytes(begin, block_));
      const auto block = codes.subspan(begin, std::min(block_, count - begin));
      if (!is_canonical(scale, block)) return false;
      for (std::size_t i = begin; i < begin + block.size(); ++i) {
        values[i] = ufloat16_value(scale) * Levels::kLevels[codes[i]];
      }
    }
    return true;
  }

 private:
  void quantise(std::span<const float> block, std::uint16_t scale, const float* units,
                std::uint8_t* codes) const {
    const float divisor = divisor_of(scale);
    if (stochastic_) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        codes[i] = Levels::stochastic(block[i] / divisor, units[i]);
      }
    } else {
      for (std::size_t i = 0; i < block.size(); ++i) {
        codes[i] = Levels::nearest(block[i] / divisor);
      }
    }
  }

  static bool is_canonical(std::uint16_t scale, std::span<const std::uint8_t> codes) {
    bool known = true;
    bool zero = true;
    for (const std::uint8_t code : codes) {
      known &= code < Levels::kCount;
      zero &= code == Levels::kZero;
    }
    return scale <= scale_max(Levels::kTop) && known && (scale != 0 || zero);
  }

  std::string name_;
  std::size_t block_;  // values per scale
  bool stochastic_;
};

template <typename Levels, typename Packing>
std::unique_ptr<ValueFormat> make(const char* name, Spec& spec, std::size_t block) {
  block = spec.take_block(block);
  return std::make_unique<GridFormat<Levels, Packing>>(name, block, spec.take_stochastic());
}

}  // namespace

std::unique_ptr<ValueFormat> make_int4(Spec& spec) {
  return make<Int4Grid, Nibbles>("int4", spec, 64);
}
std::unique_ptr<ValueFormat> make_nf4(Spec& spec) {
  return make<Nf4Grid, Nibbles>("nf4", spec, 64);
}
std::unique_ptr<ValueFormat> make_e2m1(Spec& spec) {
  return make<E2M1Grid, Nibbles>("e2m1", spec, 64);
}
std::unique_ptr<ValueFormat> make_e3m0(Spec& spec) {
  return make<E3M0Grid, Nibbles>("e3m0", spec, 128);
}
std::unique_ptr<ValueFormat> make_ternary(Spec& spec) {
  return make<TernaryGrid, BaseThree>("ternary", spec, 64);
}

}  // namespace causeway::compression
