// Any bytes as an encoding. The first byte chooses the codec, the second how many chunks and
// whether zeros fill the encoding up to the size that a codec of fixed size demands. Whatever
// decodes must be finite, the same on a second reading, and no larger than its bound.
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

// Of bytes that decode to these values, if they do.
bool is_within_its_bound(const Codec& codec, std::span<const std::byte> bytes, bool accepted,
                         const std::vector<float>& values) {
  double norm_squared = 0;
  for (const double x : values) norm_squared += x * x;
  try {
    const double bound = codec.norm_squared_bound(bytes, values.size());
    return std::isfinite(bound) && (!accepted || bound >= norm_squared * (1 - 1e-9));
  } catch (const std::system_error& error) {
    return !accepted && error.code() == Errc::malformed;
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
  assert(is_within_its_bound(*codec, bytes, accepted, sum));
  return 0;
}
