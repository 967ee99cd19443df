// What one encode gave.
#pragma once

#include <vector>

#include "compression/base/codec.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {

struct Encoded {
  std::vector<std::byte> bytes;
  Floats decoded;
  EncodeStats stats;
};

inline Encoded encode(const Codec& codec, const Floats& input, const EncodeKey& key = {}) {
  Encoded result{.bytes = {}, .decoded = Floats(input.size(), 42.0F), .stats = {}};
  result.stats = codec.encode(input, result.decoded, result.bytes, key);
  return result;
}

}  // namespace causeway::compression
