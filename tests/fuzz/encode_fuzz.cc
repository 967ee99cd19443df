// Any finite numbers to be encoded. The first byte chooses the codec; the rest are floats, which
// are repeated to fill a segment. What the encoder says that its bytes mean is what they decode to.
#include <cassert>
#include <cmath>
#include <vector>

#include "compression/base/bytes.h"
#include "compression/base/chunk.h"
#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"
#include "tests/compression/codecs/specs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::compression;
  if (size < 1 + sizeof(float)) return 0;
  const auto codec = make_codec(kSpecs[data[0] % kSpecs.size()]);
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const std::size_t given = bytes.size() / sizeof(float);
  std::vector<float> input(2 * kChunk);
  for (std::size_t i = 0; i < input.size(); ++i) {
    // The last quarter is padding.
    const auto x = load<float>(bytes.data() + i % given * sizeof(float));
    if (i < input.size() * 3 / 4 && is_finite(x)) input[i] = x;
  }
  std::vector<float> decoded(input.size()), sum(input.size());
  std::vector<std::byte> encoded;
  codec->encode(input, decoded, encoded, {.seed = size});
  assert(encoded.size() <= codec->encoded_bytes_max(input.size()));
  codec->decode_add(encoded, 1.0F, sum);
  for (std::size_t i = 0; i < input.size(); ++i) {
    assert(std::isfinite(decoded[i]) && sum[i] == decoded[i]);
    assert(input[i] != 0 || decoded[i] == 0);
  }
  return 0;
}
