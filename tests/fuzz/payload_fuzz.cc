// Any bytes as a payload: every segment is decoded, as a region would. Whatever decodes must be
// canonical: written again, a payload gives the same bytes, and decoded values are finite.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "compression/codecs/make_codec.h"
#include "compression/codecs/payload.h"

namespace {

using namespace causeway::compression;

void decode(const Payload& payload, const EncodedSegment& segment) {
  std::unique_ptr<Codec> codec;
  try {
    codec = make_codec(payload.codec_specs.at(segment.codec));
  } catch (const std::system_error& error) {
    assert(error.code() == Errc::bad_spec);
    return;
  }
  // The directory may claim 2^20 elements for an empty segment; only what the codec may accept is
  // worth the memory.
  const std::size_t most = codec->encoded_bytes_max(segment.element_count);
  if (segment.bytes.size() > most || (codec->chunk_bytes() && segment.bytes.size() < most)) return;
  std::vector<float> values(segment.element_count);
  codec->decode_add(segment.bytes, 1.0F, values);
  for (const float x : values) assert(std::isfinite(x));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const Payload payload = read_payload(bytes);
    const std::vector<std::byte> again = write_payload(payload.codec_specs, payload.segments);
    assert(std::equal(again.begin(), again.end(), bytes.begin(), bytes.end()));
    for (const EncodedSegment& segment : payload.segments) decode(payload, segment);
  } catch (const std::system_error& error) {
    assert(error.code() == Errc::malformed);
  }
  return 0;
}
