// rice: see rice.h.
#include "compression/index/index_formats.h"
#include "compression/index/rice.h"

namespace causeway::compression {
namespace {

class RiceIndex final : public IndexFormat {
 public:
  std::string name() const override { return "rice"; }
  std::size_t bytes_min(std::size_t count) const override { return Rice{count}.bytes_min(); }
  std::size_t bytes_max(std::size_t count) const override { return Rice{count}.bytes_max(); }
  bool bytes_vary() const override { return true; }

  std::size_t encode(std::span<const std::uint16_t> positions, std::byte* out) const override {
    return Rice{positions.size()}.encode(positions, out);
  }
  bool decode(std::span<const std::byte> bytes, std::span<std::uint16_t> positions) const override {
    return Rice{positions.size()}.decode(bytes, positions);
  }
};

}  // namespace

std::unique_ptr<IndexFormat> make_rice() {
  return std::make_unique<RiceIndex>();
}

}  // namespace causeway::compression
