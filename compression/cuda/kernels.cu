// One block per chunk; the logic is in chunk_*.h.
#include "compression/cuda/block_group.cuh"
#include "compression/cuda/chunk_topk_decode.h"
#include "compression/cuda/error.h"
#include "compression/cuda/kernels.h"

namespace causeway::compression::cuda {
namespace {

constexpr unsigned kDecodeLanes = 32;  // most words of an encoding are few

__device__ void report(bool good, std::uint32_t* first_bad) {
  if (!good && threadIdx.x == 0) atomicMin(first_bad, blockIdx.x);
}

__device__ DeviceChunk own_chunk(const DeviceChunk& first) {
  const std::size_t offset = std::size_t{blockIdx.x} * kChunk;
  return {first.delta + offset, first.residual + offset, first.next + offset, first.beta};
}

__global__ void __launch_bounds__(kChunkLanes) encode_topk(TopKFormat format, EncodeJob job) {
  __shared__ TopKMemory memory;
  __shared__ BlockGroup<kChunkLanes>::Memory group_memory;
  BlockGroup<kChunkLanes> group(group_memory);
  std::uint8_t* bytes = job.bytes + blockIdx.x * format.bytes();
  report(
      encode_topk_chunk(group, format, own_chunk(job.first), memory, bytes, job.norms[blockIdx.x]),
      job.first_bad);
}

__global__ void __launch_bounds__(kChunkLanes) encode_int8(Int8Format format, EncodeJob job) {
  __shared__ Int8Memory memory;
  __shared__ BlockGroup<kChunkLanes>::Memory group_memory;
  BlockGroup<kChunkLanes> group(group_memory);
  std::uint8_t* bytes = job.bytes + blockIdx.x * format.bytes();
  report(
      encode_int8_chunk(group, format, own_chunk(job.first), memory, bytes, job.norms[blockIdx.x]),
      job.first_bad);
}

__global__ void __launch_bounds__(kDecodeLanes) decode_add_topk(TopKFormat format, DecodeJob job) {
  __shared__ TopKDecodeMemory memory;
  __shared__ BlockGroup<kDecodeLanes>::Memory group_memory;
  BlockGroup<kDecodeLanes> group(group_memory);
  const std::uint8_t* bytes = job.bytes + blockIdx.x * format.bytes();
  float* accumulator = job.accumulator + std::size_t{blockIdx.x} * kChunk;
  report(decode_add_topk_chunk(group, format, bytes, job.weight, accumulator, memory),
         job.first_bad);
}

__global__ void __launch_bounds__(kChunkLanes) decode_add_int8(Int8Format format, DecodeJob job) {
  const std::uint8_t* bytes = job.bytes + blockIdx.x * format.bytes();
  float* accumulator = job.accumulator + std::size_t{blockIdx.x} * kChunk;
  const bool good = decode_add_int8_lane(threadIdx.x, format, bytes, job.weight, accumulator);
  report(__syncthreads_and(good) != 0, job.first_bad);
}

// Blocks are counted in 32 bits, and a grid of none is an error.
unsigned blocks_of(std::size_t chunks) {
  return static_cast<unsigned>(chunks);
}

}  // namespace

void launch(const TopKFormat& format, const EncodeJob& job, cudaStream_t stream) {
  if (job.chunks == 0) return;
  encode_topk<<<blocks_of(job.chunks), kChunkLanes, 0, stream>>>(format, job);
  check(cudaGetLastError(), "encoding topk on the GPU");
}

void launch(const TopKFormat& format, const DecodeJob& job, cudaStream_t stream) {
  if (job.chunks == 0) return;
  decode_add_topk<<<blocks_of(job.chunks), kDecodeLanes, 0, stream>>>(format, job);
  check(cudaGetLastError(), "decoding topk on the GPU");
}

void launch(const Int8Format& format, const EncodeJob& job, cudaStream_t stream) {
  if (job.chunks == 0) return;
  encode_int8<<<blocks_of(job.chunks), kChunkLanes, 0, stream>>>(format, job);
  check(cudaGetLastError(), "encoding int8 on the GPU");
}

void launch(const Int8Format& format, const DecodeJob& job, cudaStream_t stream) {
  if (job.chunks == 0) return;
  decode_add_int8<<<blocks_of(job.chunks), kChunkLanes, 0, stream>>>(format, job);
  check(cudaGetLastError(), "decoding int8 on the GPU");
}

}  // namespace causeway::compression::cuda
