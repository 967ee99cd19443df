// The kernels' launches: device pointers only, nothing waits. DeviceCodec is what others use; the
// benchmark times these.
#pragma once

#include <cuda_runtime_api.h>

#include "compression/cuda/chunk_int8.h"
#include "compression/cuda/chunk_topk.h"

namespace causeway::compression::cuda {

// Chunk i of everything is at i * kChunk elements, i * format.bytes() bytes, norms[i].
struct EncodeJob {
  std::size_t chunks = 0;
  DeviceChunk first{};  // of the first chunk
  std::uint8_t* bytes = nullptr;
  ChunkNorms* norms = nullptr;
  std::uint32_t* first_bad = nullptr;  // becomes the least number of a chunk that is not finite
};

struct DecodeJob {
  std::size_t chunks = 0;
  const std::uint8_t* bytes = nullptr;  // untrusted
  float weight = 0;
  float* accumulator = nullptr;
  std::uint32_t* first_bad = nullptr;  // becomes the least number of a malformed chunk
};

inline constexpr std::uint32_t kNoneBad = 0xFFFFFFFF;

void launch(const TopKFormat& format, const EncodeJob& job, cudaStream_t stream);
void launch(const TopKFormat& format, const DecodeJob& job, cudaStream_t stream);
void launch(const Int8Format& format, const EncodeJob& job, cudaStream_t stream);
void launch(const Int8Format& format, const DecodeJob& job, cudaStream_t stream);

}  // namespace causeway::compression::cuda
