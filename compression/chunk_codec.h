// The common part of all codecs: whole chunks in a loop, the finite guard, the norms. A codec adds
// what one chunk is.
#pragma once

#include "compression/chunk.h"
#include "compression/codec.h"

namespace causeway::compression {

class ChunkCodec : public Codec {
 public:
  std::size_t encoded_bytes(std::size_t count) const final;
  EncodeStats encode(std::span<const float> input, std::span<float> decoded,
                     std::vector<std::byte>& out) const final;
  void decode_add(std::span<const std::byte> bytes, float weight,
                  std::span<float> accumulator) const final;

 private:
  virtual std::size_t chunk_bytes() const = 0;
  // `input` is finite; `out` is chunk_bytes() zeros.
  virtual void encode_chunk(ChunkView input, ChunkSpan decoded, std::byte* out) const = 0;
  // `bytes` are chunk_bytes() untrusted bytes. Throws Errc::malformed.
  virtual void decode_add_chunk(const std::byte* bytes, float weight,
                                ChunkSpan accumulator) const = 0;
};

// Settings have been checked by make_codec.
std::unique_ptr<Codec> make_dense_fp32();
std::unique_ptr<Codec> make_dense_int8(std::size_t block);
std::unique_ptr<Codec> make_topk(std::size_t k);

}  // namespace causeway::compression
