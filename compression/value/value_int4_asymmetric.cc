// int4-asymmetric: codes 0 to 15 that reach from a block's smallest value to its largest. Per block
// a 16-bit scale and the code that stands for zero: zero is always among the levels, because
// padding must stay zero.
#include <algorithm>
#include <array>
#include <limits>

#include "compression/base/bytes.h"
#include "compression/base/scale.h"
#include "compression/value/int8.h"
#include "compression/value/nibbles.h"
#include "compression/value/value.h"

namespace causeway::compression {
namespace {

constexpr std::int32_t kCodeMax = 15;

// How a block's values map to codes: code = value / scale + zero.
struct Frame {
  std::uint16_t scale = 0;
  std::uint8_t zero = 0;

  static Frame of(std::span<const float> block) {
    const auto [smallest, largest] = std::minmax_element(block.begin(), block.end());
    const float low = std::min(*smallest, 0.0F);
    const float high = std::max(*largest, 0.0F);
    const float range = std::min(high - low, std::numeric_limits<float>::max());
    Frame frame;
    frame.scale = scale_for(range, kCodeMax, false);
    frame.zero = static_cast<std::uint8_t>(
        std::min(round_quotient(-low, divisor_of(frame.scale)), kCodeMax));
    return frame;
  }
  std::uint8_t code(float x) const {
    const std::int32_t code = round_quotient(x, divisor_of(scale)) + zero;
    return static_cast<std::uint8_t>(std::clamp(code, 0, kCodeMax));
  }
  float value(std::uint8_t code) const {
    return ufloat16_value(scale) * static_cast<float>(code - zero);
  }
};

class Int4Asymmetric final : public ValueFormat {
 public:
  explicit Int4Asymmetric(std::size_t block) : block_(block) {}

  std::string spec() const override { return "int4-asymmetric,block=" + std::to_string(block_); }
  std::size_t bytes(std::size_t count) const override {
    return head_bytes(count) + Nibbles::bytes(count);
  }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey&) const override {
    const std::size_t count = values.size();
    std::array<std::uint8_t, kChunk> zeros;
    std::array<std::uint8_t, kChunk> codes;
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const std::size_t end = std::min(begin + block_, count);
      const Frame frame = Frame::of(values.subspan(begin, end - begin));
      store(out + scale_bytes(begin, block_), frame.scale);
      zeros[begin / block_] = frame.zero;
      for (std::size_t i = begin; i < end; ++i) {
        codes[i] = frame.code(values[i]);
        decoded[i] = frame.value(codes[i]);
      }
    }
    Nibbles::pack(std::span(zeros).first(blocks(count)), out + scale_bytes(count, block_));
    Nibbles::pack(std::span(codes).first(count), out + head_bytes(count));
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    const std::size_t count = values.size();
    std::array<std::uint8_t, kChunk> zeros;
    std::array<std::uint8_t, kChunk> codes;
    if (!Nibbles::unpack(bytes + scale_bytes(count, block_),
                         std::span(zeros).first(blocks(count))) ||
        !Nibbles::unpack(bytes + head_bytes(count), std::span(codes).first(count))) {
      return false;
    }
    for (std::size_t begin = 0; begin < count; begin += block_) {
      const Frame frame{load<std::uint16_t>(bytes + scale_bytes(begin, block_)),
                        zeros[begin / block_]};
      if (frame.scale > scale_max(kCodeMax)) return false;
      std::uint8_t any = frame.zero;
      for (std::size_t i = begin; i < std::min(begin + block_, count); ++i) {
        any |= codes[i];
        values[i] = frame.value(codes[i]);
      }
      if (frame.scale == 0 && any != 0) return false;
    }
    return true;
  }

  double norm_squared_bound(const std::byte* bytes, std::size_t count) const override {
    return norm_squared_of_scales(bytes, count, block_, kCodeMax);
  }

 private:
  std::size_t blocks(std::size_t count) const { return (count + block_ - 1) / block_; }
  std::size_t head_bytes(std::size_t count) const {
    return scale_bytes(count, block_) + Nibbles::bytes(blocks(count));
  }

  std::size_t block_;  // values per scale
};

}  // namespace

std::unique_ptr<ValueFormat> make_int4_asymmetric(Spec& spec) {
  return std::make_unique<Int4Asymmetric>(spec.take_block(64));
}

}  // namespace causeway::compression
