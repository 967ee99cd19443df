// bf16; and fp16 under one power of two per chunk.
#include <algorithm>
#include <array>
#include <cstring>

#include "compression/base/bytes.h"
#include "compression/base/chunk.h"
#include "compression/base/float16.h"
#include "compression/base/scale.h"
#include "compression/value/value.h"

namespace causeway::compression {

// fp32: the floats themselves. Lossless; the reference for the other formats.

namespace {

class Fp32 final : public ValueFormat {
 public:
  std::string spec() const override { return "fp32"; }
  std::size_t bytes(std::size_t count) const override { return count * sizeof(float); }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey&) const override {
    std::memcpy(out, values.data(), values.size_bytes());
    std::copy(values.begin(), values.end(), decoded.begin());
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    std::memcpy(values.data(), bytes, values.size_bytes());
    return std::all_of(values.begin(), values.end(), [](float x) { return is_finite(x); });
  }
};

}  // namespace

std::unique_ptr<ValueFormat> make_fp32(Spec&) {
  return std::make_unique<Fp32>();
}

namespace {

constexpr std::size_t kWidth = sizeof(std::uint16_t);

using Codes = std::array<std::uint16_t, kChunk>;

class Bf16 final : public ValueFormat {
 public:
  std::string spec() const override { return "bf16"; }
  std::size_t bytes(std::size_t count) const override { return count * kWidth; }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey&) const override {
    Codes codes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      codes[i] = bf16_nearest(values[i]);
      decoded[i] = bf16_value(codes[i]);
    }
    std::memcpy(out, codes.data(), bytes(values.size()));
  }

  bool decode(const std::byte* from, std::span<float> values) const override {
    Codes codes;
    std::memcpy(codes.data(), from, bytes(values.size()));
    bool canonical = true;
    for (std::size_t i = 0; i < values.size(); ++i) {
      canonical &= codes[i] != kSign16 && (codes[i] & ~kSign16) <= kBf16Max;
      values[i] = bf16_value(codes[i]);
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
    const std::uint32_t most = fp16_largest(exponent);
    const float unit = fp16_unit(exponent);
    Codes codes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      codes[i] = fp16_nearest(values[i] / unit, most);
      decoded[i] = fp16_value(codes[i]) * unit;
    }
    store(out, static_cast<std::uint8_t>(exponent));
    std::memcpy(out + 1, codes.data(), values.size() * kWidth);
  }

  bool decode(const std::byte* from, std::span<float> values) const override {
    const std::uint32_t exponent = load<std::uint8_t>(from);
    if (exponent > kFp16ExponentMax) return false;
    Codes codes;
    std::memcpy(codes.data(), from + 1, values.size() * kWidth);
    const float unit = fp16_unit(exponent);
    bool minus_zero = false;
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      minus_zero |= codes[i] == kSign16;
      largest = std::max<std::uint32_t>(largest, codes[i] & 0x7FFF);
      values[i] = fp16_value(codes[i]) * unit;
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
