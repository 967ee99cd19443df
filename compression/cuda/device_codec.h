// Codecs whose floats are in a GPU's memory. Same bytes, same residuals and same norms as the CPU's
// (codec.h, feedback.h); only encodings cross the bus, and 16 bytes of norms per chunk.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "compression/codec.h"

namespace causeway::compression::cuda {

// For one device and stream, which must outlive it; not for several threads at once. Its buffers
// grow to the largest call's encoding. All calls wait for the stream. CUDA failures are
// std::system_error of category "cuda".
class DeviceCodec {
 public:
  // "dense:int8[,block=B]", or topk with value=2bit and index=elias-fano. Throws Errc::bad_spec.
  DeviceCodec(std::string_view spec, cudaStream_t stream);
  ~DeviceCodec();

  std::size_t encoded_bytes(std::size_t count) const;

  // p = beta * residual + delta; appends encode(p) to `out`; next <- p - Q(p). The three are in
  // device memory, of one size, a multiple of kChunk; `next` may be `delta`. Returns each chunk's
  // norms: a segment's are the sums over its chunks in order. If p is not finite, throws
  // Errc::not_finite with `residual` and `out` as they were, and `next` unspecified.
  std::vector<EncodeStats> encode_with_feedback(std::span<const float> delta, float beta,
                                                std::span<const float> residual,
                                                std::span<float> next, std::vector<std::byte>& out);

  // accumulator (device memory) += weight * Q. Untrusted bytes: throws Errc::malformed; the
  // accumulator may then hold a partial sum.
  void decode_add(std::span<const std::byte> bytes, float weight, std::span<float> accumulator);

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace causeway::compression::cuda
