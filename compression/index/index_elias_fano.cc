// elias-fano: see elias_fano.h.
#include <cassert>

#include "compression/index/elias_fano.h"
#include "compression/index/index_formats.h"

namespace causeway::compression {
namespace {

class EliasFanoIndex final : public IndexFormat {
 public:
  std::string name() const override { return "elias-fano"; }
  std::size_t bytes_min(std::size_t count) const override { return EliasFano{count}.bytes(); }

  std::size_t encode(std::span<const std::uint16_t> positions, std::byte* out) const override {
    const EliasFano coder{positions.size()};
    coder.encode(positions, out);
    return coder.bytes();
  }

  bool decode(std::span<const std::byte> bytes, std::span<std::uint16_t> positions) const override {
    assert(bytes.size() == bytes_min(positions.size()));
    return EliasFano{positions.size()}.decode(bytes.data(), positions);
  }
};

}  // namespace

std::unique_ptr<IndexFormat> make_elias_fano() {
  return std::make_unique<EliasFanoIndex>();
}

}  // namespace causeway::compression
