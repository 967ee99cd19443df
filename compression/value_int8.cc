// int8: per block one 16-bit scale, then one signed byte per value (algorithms.md 9.1).
#include <algorithm>

#include "compression/bytes.h"
#include "compression/chunk.h"
#include "compression/formats.h"
#include "compression/int8.h"

namespace causeway::compression {
namespace {

class Int8 final : public ValueFormat {
 public:
  explicit Int8(std::size_t block) : block_(block) {}
  std::string spec() const override { return "int8,block=" + std::to_string(block_); }
  std::size_t bytes(std::size_t count) const override { return scale_bytes(count) + count; }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey&) const override {
    std::byte* scales = out;
    std::byte* codes = out + scale_bytes(values.size());
    for (std::size_t i = 0; i < values.size(); i += block_, scales += sizeof(std::uint16_t)) {
      const std::size_t length = std::min(block_, values.size() - i);
      store(scales, int8_encode(values.subspan(i, length), decoded.subspan(i, length), codes + i));
    }
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    std::fill(values.begin(), values.end(), 0.0F);
    return decode_add(bytes, 1.0F, values);
  }

  bool decode_add(const std::byte* bytes, float weight,
                  std::span<float> accumulator) const override {
    const std::size_t count = accumulator.size();
    const std::byte* codes = bytes + scale_bytes(count);
    for (std::size_t i = 0; i < count; i += block_, bytes += sizeof(std::uint16_t)) {
      const std::size_t length = std::min(block_, count - i);
      if (!int8_decode_add(load<std::uint16_t>(bytes), codes + i, weight,
                           accumulator.subspan(i, length))) {
        return false;
      }
    }
    return true;
  }

 private:
  std::size_t scale_bytes(std::size_t count) const {
    return (count + block_ - 1) / block_ * sizeof(std::uint16_t);
  }

  std::size_t block_;  // values per scale
};

}  // namespace

std::unique_ptr<ValueFormat> make_int8(Spec& spec) {
  return std::make_unique<Int8>(spec.take_block(128));
}

}  // namespace causeway::compression
