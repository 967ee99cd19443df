// dense:int8: per chunk, one 16-bit scale per block, then one signed byte per element.
// (algorithms.md 9.1)
#include <algorithm>

#include "compression/bytes.h"
#include "compression/chunk_codec.h"
#include "compression/fail.h"
#include "compression/int8.h"

namespace causeway::compression {
namespace {

float largest_magnitude(std::span<const float> block) {
  std::int32_t largest = 0;  // signed, because every machine compares signed lanes
  for (const float x : block) {
    largest = std::max(largest, static_cast<std::int32_t>(magnitude_bits(x)));
  }
  return std::bit_cast<float>(largest);
}

std::uint16_t encode_block(std::span<const float> block, std::span<float> decoded,
                           std::byte* codes) {
  const std::uint16_t scale_bits = int8_scale(largest_magnitude(block));
  const float scale = ufloat16_value(scale_bits);
  const float divisor = scale_bits == 0 ? 1.0F : scale;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const std::int32_t code = round_quotient(block[i], divisor);
    codes[i] = static_cast<std::byte>(code);
    decoded[i] = scale * static_cast<float>(code);
  }
  return scale_bits;
}

std::int8_t code_at(const std::byte* codes, std::size_t i) {
  return static_cast<std::int8_t>(codes[i]);
}

void check_block(std::uint16_t scale_bits, std::span<const std::byte> codes) {
  if (scale_bits > kInt8ScaleMax) fail(Errc::malformed, "dense:int8: scale out of range");
  std::uint8_t unused_code = 0;  // flags as wide as the codes, so that the loop vectorises
  std::uint8_t any = 0;
  for (const std::byte code : codes) {
    unused_code |= code == std::byte{0x80} ? 1 : 0;
    any |= std::to_integer<std::uint8_t>(code);
  }
  if (unused_code != 0) fail(Errc::malformed, "dense:int8: code -128");
  if (scale_bits == 0 && any != 0) fail(Errc::malformed, "dense:int8: codes in a block of scale 0");
}

class DenseInt8 final : public ChunkCodec {
 public:
  explicit DenseInt8(std::size_t block) : block_(block) {}
  std::string spec() const override { return "dense:int8,block=" + std::to_string(block_); }
  bool is_sparse() const override { return false; }

 private:
  std::size_t scale_bytes() const { return kChunk / block_ * sizeof(std::uint16_t); }
  std::size_t chunk_bytes() const override { return scale_bytes() + kChunk; }

  void encode_chunk(ChunkView input, ChunkSpan decoded, std::byte* out) const override {
    std::byte* scales = out;
    std::byte* codes = out + scale_bytes();
    for (std::size_t i = 0; i < kChunk; i += block_, scales += sizeof(std::uint16_t)) {
      store(scales, encode_block(input.subspan(i, block_), decoded.subspan(i, block_), codes + i));
    }
  }

  void decode_add_chunk(const std::byte* bytes, float weight,
                        ChunkSpan accumulator) const override {
    const std::byte* codes = bytes + scale_bytes();
    for (std::size_t begin = 0; begin < kChunk; begin += block_) {
      const auto scale_bits = load<std::uint16_t>(bytes + begin / block_ * sizeof(std::uint16_t));
      check_block(scale_bits, {codes + begin, block_});
      const float scale = ufloat16_value(scale_bits);
      for (std::size_t i = begin; i < begin + block_; ++i) {
        accumulator[i] += weight * (scale * static_cast<float>(code_at(codes, i)));
      }
    }
  }

  std::size_t block_;  // elements per scale; divides kChunk
};

}  // namespace

std::unique_ptr<Codec> make_dense_int8(std::size_t block) {
  return std::make_unique<DenseInt8>(block);
}

}  // namespace causeway::compression
