// Any bytes as an encoding. The first byte chooses the codec, the second how many chunks and
// whether zeros fill the encoding up to the size that a codec of fixed size demands. Whatever
// decodes must be finite, and the same on a second reading.
#include <cassert>
#include <cmath>
#include <vector>

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "tests/compression/codecs/specs.h"

namespace {

using namespace causeway::compression;

constexpr std::size_t kChunksMax = 4;

bool decodes(const Codec& codec, std::span<const std::byte> bytes, std::vector<float>& sum) {
  try {
    codec.decode_add(bytes, 1.0F, sum);
    return true;
  } catch (const std::system_error& error) {
    assert(error.code() == Errc::malformed);
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto codec = make_codec(kSpecs[data[0] % kSpecs.size()]);
  const std::size_t count = (1 + data[1] / 2 % kChunksMax) * kChunk;
  const auto given = std::as_bytes(std::span(data, size)).subspan(2);
  std::vector<std::byte> bytes(given.begin(), given.end());
  if (codec->chunk_bytes() && data[1] % 2 != 0) bytes.resize(codec->encoded_bytes_max(count));

  std::vector<float> sum(count), again(count);
  const bool accepted = decodes(*codec, bytes, sum);
  for (const float x : sum) assert(std::isfinite(x));
  assert(!accepted || bytes.size() <= codec->encoded_bytes_max(count));
  assert(decodes(*codec, bytes, again) == accepted);
  assert(sum == again);
  return 0;
}
