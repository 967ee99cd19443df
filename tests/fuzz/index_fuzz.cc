// Any bytes as positions. The first byte chooses the format, the next two how many positions.
// Whatever decodes must be exactly what encoding it again gives.
#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

#include "compression/base/bytes.h"
#include "compression/index/index.h"

namespace {

using namespace causeway::compression;

constexpr std::array kFormats{"elias-fano", "rice", "packed-12", "bitmap", "raw"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  Spec spec("any");
  const auto format = make_index(spec, kFormats[data[0] % kFormats.size()]);
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t count = 1 + load<std::uint16_t>(bytes.data()) % kChunk;
  const auto body = bytes.subspan(2);
  if (body.size() < format->bytes_min(count) || body.size() > format->bytes_max(count)) return 0;
  std::vector<std::uint16_t> positions(count);
  if (!format->decode(body, positions)) return 0;
  std::vector<std::byte> again(format->bytes_max(count));
  again.resize(format->encode(positions, again.data()));
  assert(std::equal(again.begin(), again.end(), body.begin(), body.end()));
  return 0;
}
