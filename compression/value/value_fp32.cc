// fp32: the floats themselves. Lossless; the reference for the other formats.
#include <algorithm>
#include <array>
#include <cstring>

#include "compression/base/chunk.h"
#include "compression/value/value_formats.h"

namespace causeway::compression {
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

}  // namespace causeway::compression
