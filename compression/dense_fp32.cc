// dense:fp32: the floats themselves, little-endian. Lossless; the reference the other codecs are
// compared with.
#include <algorithm>
#include <array>
#include <cstring>

#include "compression/chunk_codec.h"
#include "compression/fail.h"

namespace causeway::compression {
namespace {

class DenseFp32 final : public ChunkCodec {
 public:
  std::string spec() const override { return "dense:fp32"; }
  bool is_sparse() const override { return false; }

 private:
  std::size_t chunk_bytes() const override { return kChunk * sizeof(float); }

  void encode_chunk(ChunkView input, ChunkSpan decoded, std::byte* out) const override {
    std::memcpy(out, input.data(), input.size_bytes());
    std::copy(input.begin(), input.end(), decoded.begin());
  }

  void decode_add_chunk(const std::byte* bytes, float weight,
                        ChunkSpan accumulator) const override {
    std::array<float, kChunk> values;
    std::memcpy(values.data(), bytes, sizeof values);
    if (!all_finite(values)) fail(Errc::malformed, "dense:fp32: a value is not finite");
    for (std::size_t i = 0; i < kChunk; ++i) accumulator[i] += weight * values[i];
  }
};

}  // namespace

std::unique_ptr<Codec> make_dense_fp32() {
  return std::make_unique<DenseFp32>();
}

}  // namespace causeway::compression
