// bf16; and fp16 under one power of two per chunk.
#include <algorithm>

#include "compression/bytes.h"
#include "compression/float16.h"
#include "compression/formats.h"
#include "compression/scale.h"

namespace causeway::compression {
namespace {

constexpr std::size_t kWidth = sizeof(std::uint16_t);

class Bf16 final : public ValueFormat {
 public:
  std::string spec() const override { return "bf16"; }
  std::size_t bytes(std::size_t count) const override { return count * kWidth; }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey&) const override {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t bits = bf16_nearest(values[i]);
      store(out + i * kWidth, bits);
      decoded[i] = bf16_value(bits);
    }
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    bool canonical = true;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = load<std::uint16_t>(bytes + i * kWidth);
      canonical &= bits != kSign16 && (bits & ~kSign16) <= kBf16Max;
      values[i] = bf16_value(bits);
    }
    return canonical;
  }
};

class Fp16 final : public ValueFormat {
 public:
  std::string spec() const override { return "fp16"; }
  std::size_t bytes(std::size_t count) const override { return 1 + count * kWidth; }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey&) const override {
    const std::uint32_t exponent = fp16_exponent(largest_magnitude(values));
    store(out, static_cast<std::uint8_t>(exponent));
    const float unit = fp16_unit(exponent);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint16_t bits = fp16_nearest(values[i] / unit, fp16_largest(exponent));
      store(out + 1 + i * kWidth, bits);
      decoded[i] = fp16_value(bits) * unit;
    }
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    const std::uint32_t exponent = load<std::uint8_t>(bytes);
    if (exponent > kFp16ExponentMax) return false;
    const float unit = fp16_unit(exponent);
    bool minus_zero = false;
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto bits = load<std::uint16_t>(bytes + 1 + i * kWidth);
      minus_zero |= bits == kSign16;
      largest = std::max<std::uint32_t>(largest, bits & 0x7FFF);
      values[i] = fp16_value(bits) * unit;
    }
    // The exponent is the one that the largest needs.
    const std::uint32_t least = exponent == 0 ? 0 : exponent == 1 ? 1 : kFp16Two14;
    return !minus_zero && largest >= least && largest <= fp16_largest(exponent);
  }
};

}  // namespace

std::unique_ptr<ValueFormat> make_bf16(Spec&) {
  return std::make_unique<Bf16>();
}

std::unique_ptr<ValueFormat> make_fp16(Spec&) {
  return std::make_unique<Fp16>();
}

}  // namespace causeway::compression
