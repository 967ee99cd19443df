#include "compression/feedback.h"

#include <array>
#include <cassert>

#include "compression/chunk.h"
#include "compression/fail.h"

namespace causeway::compression {
namespace {

void add_decayed(ChunkView delta, float beta, ChunkView residual, ChunkSpan p) {
  for (std::size_t i = 0; i < kChunk; ++i) p[i] = beta * residual[i] + delta[i];
}

}  // namespace

EncodeStats encode_with_feedback(const Codec& codec, std::span<const float> delta, float beta,
                                 std::span<float> residual, std::vector<std::byte>& out) {
  assert(delta.size() == residual.size() && delta.size() % kChunk == 0);
  std::array<float, kChunk> p;
  const auto form_p = [&](std::size_t begin) {
    add_decayed(delta.subspan(begin).first<kChunk>(), beta, residual.subspan(begin).first<kChunk>(),
                p);
  };
  // The residual is overwritten chunk by chunk below, so nothing may fail there: look before the
  // first write.
  for (std::size_t begin = 0; begin < delta.size(); begin += kChunk) {
    form_p(begin);
    if (!all_finite(p)) {
      fail(Errc::not_finite, "elements from " + std::to_string(begin) + " on");
    }
  }
  std::array<float, kChunk> decoded;
  EncodeStats total;
  for (std::size_t begin = 0; begin < delta.size(); begin += kChunk) {
    form_p(begin);
    const EncodeStats stats = codec.encode(p, decoded, out);
    total.input_norm_squared += stats.input_norm_squared;
    total.error_norm_squared += stats.error_norm_squared;
    for (std::size_t i = 0; i < kChunk; ++i) residual[begin + i] = p[i] - decoded[i];
  }
  return total;
}

void return_to_residual(const Codec& codec, std::span<const std::byte> encoded,
                        std::span<float> residual) {
  codec.decode_add(encoded, 1.0F, residual);
}

}  // namespace causeway::compression
