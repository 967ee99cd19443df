// 2bit: sign and the choice between two centroids, which follow the codes (two_bit.h).
#include "compression/base/bytes.h"
#include "compression/value/two_bit.h"
#include "compression/value/value_formats.h"

namespace causeway::compression {
namespace {

class TwoBit final : public ValueFormat {
 public:
  std::string spec() const override { return "2bit"; }
  std::size_t bytes(std::size_t count) const override {
    return code_bytes(count) + 2 * sizeof(std::uint16_t);
  }

  void encode(std::span<const float> values, std::span<float> decoded, std::byte* out,
              const EncodeKey&) const override {
    const Centroids centroids = two_bit_encode(values, decoded, out);
    std::byte* after = out + code_bytes(values.size());
    store(after, centroids.low);
    store(after + sizeof centroids.low, centroids.high);
  }

  bool decode(const std::byte* bytes, std::span<float> values) const override {
    const std::byte* after = bytes + code_bytes(values.size());
    Centroids centroids;
    centroids.low = load<std::uint16_t>(after);
    centroids.high = load<std::uint16_t>(after + sizeof centroids.low);
    return two_bit_decode(centroids, bytes, values);
  }

 private:
  static std::size_t code_bytes(std::size_t count) { return bytes_for_bits(2 * count); }
};

}  // namespace

std::unique_ptr<ValueFormat> make_two_bit(Spec&) {
  return std::make_unique<TwoBit>();
}

}  // namespace causeway::compression
