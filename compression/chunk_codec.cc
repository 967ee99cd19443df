#include "compression/chunk_codec.h"

#include <array>
#include <cassert>
#include <string>

#include "compression/fail.h"

namespace causeway::compression {
namespace {

double squared_distance(ChunkView a, ChunkView b) {
  std::array<float, kChunk> difference;
  for (std::size_t i = 0; i < kChunk; ++i) difference[i] = a[i] - b[i];
  return sum_of_squares(difference);
}

}  // namespace

std::size_t ChunkCodec::encoded_bytes(std::size_t count) const {
  assert(count % kChunk == 0);
  return count / kChunk * chunk_bytes();
}

EncodeStats ChunkCodec::encode(std::span<const float> input, std::span<float> decoded,
                               std::vector<std::byte>& out) const {
  assert(input.size() == decoded.size());
  const std::size_t before = out.size();
  out.resize(before + encoded_bytes(input.size()));
  std::byte* to = out.data() + before;
  EncodeStats stats;
  for (std::size_t begin = 0; begin < input.size(); begin += kChunk, to += chunk_bytes()) {
    const ChunkView chunk = input.subspan(begin).first<kChunk>();
    const ChunkSpan chunk_decoded = decoded.subspan(begin).first<kChunk>();
    if (!all_finite(chunk)) {
      out.resize(before);
      fail(Errc::not_finite, "elements from " + std::to_string(begin) + " on");
    }
    encode_chunk(chunk, chunk_decoded, to);
    stats.input_norm_squared += sum_of_squares(chunk);
    stats.error_norm_squared += squared_distance(chunk, chunk_decoded);
  }
  return stats;
}

void ChunkCodec::decode_add(std::span<const std::byte> bytes, float weight,
                            std::span<float> accumulator) const {
  if (bytes.size() != encoded_bytes(accumulator.size())) {
    fail(Errc::malformed, spec() + ": " + std::to_string(bytes.size()) + " bytes where " +
                              std::to_string(encoded_bytes(accumulator.size())) + " are needed");
  }
  const std::byte* from = bytes.data();
  for (std::size_t begin = 0; begin < accumulator.size(); begin += kChunk, from += chunk_bytes()) {
    decode_add_chunk(from, weight, accumulator.subspan(begin).first<kChunk>());
  }
}

}  // namespace causeway::compression
