// Any text as a codec's spec: refused, or its full form makes the same codec again.
#include <cassert>

#include "compression/base/codec.h"
#include "compression/codecs/make_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace causeway::compression;
  try {
    const auto codec = make_codec({reinterpret_cast<const char*>(data), size});
    const std::string full = codec->spec();
    assert(full.size() <= 255);  // so that a payload can name it
    const auto again = make_codec(full);
    assert(again->spec() == full);
    assert(again->is_sparse() == codec->is_sparse());
    assert(again->encoded_bytes_max(3 * kChunk) == codec->encoded_bytes_max(3 * kChunk));
  } catch (const std::system_error& error) {
    assert(error.code() == Errc::bad_spec);
  }
  return 0;
}
