#include "compression/feedback.h"

#include <array>
#include <cassert>
#include <vector>

#include "compression/chunk.h"
#include "compression/fail.h"

namespace causeway::compression {
namespace {

void add_decayed(std::span<const float> delta, float beta, std::span<const float> residual,
                 std::span<float> p) {
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = beta * residual[i] + delta[i];
}

void check_finite(std::span<const float> delta, float beta, std::span<const float> residual) {
  std::array<float, kChunk> p;
  for (std::size_t begin = 0; begin < delta.size(); begin += kChunk) {
    add_decayed(delta.subspan(begin, kChunk), beta, residual.subspan(begin, kChunk), p);
    if (!all_finite(p)) {
      fail(Errc::not_finite, "elements from " + std::to_string(begin) + " on");
    }
  }
}

}  // namespace

EncodeStats encode_with_feedback(const Codec& codec, std::span<const float> delta, float beta,
                                 std::span<float> residual, std::vector<std::byte>& out,
                                 const EncodeKey& key) {
  assert(delta.size() == residual.size() && delta.size() % kChunk == 0);
  // The residual is overwritten part by part below, so nothing may fail there: look before the
  // first write.
  check_finite(delta, beta, residual);
  const std::size_t step = codec.chunk_bytes() ? kChunk : delta.size();
  std::vector<float> p(step);
  std::vector<float> decoded(step);
  EncodeKey part_key = key;
  EncodeStats total;
  for (std::size_t begin = 0; begin < delta.size(); begin += step) {
    const auto part = residual.subspan(begin, step);
    add_decayed(delta.subspan(begin, step), beta, part, p);
    total += codec.encode(p, decoded, out, part_key);
    for (std::size_t i = 0; i < step; ++i) part[i] = p[i] - decoded[i];
    part_key.first_element += step;
  }
  return total;
}

void return_to_residual(const Codec& codec, std::span<const std::byte> encoded,
                        std::span<float> residual) {
  codec.decode_add(encoded, 1.0F, residual);
}

}  // namespace causeway::compression
