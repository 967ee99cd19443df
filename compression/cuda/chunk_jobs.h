// Spans encoded and decoded on a device: what one kernel does, as data with one constexpr function,
// for a chunk by a group of lanes (chunk_feedback.h). nvcc compiles it for the device (kernels.h),
// the tests call it on the CPU.
//
// Chunk i of everything is at i * kChunk elements, i * format.bytes() bytes, norms[i] and bad[i].
#pragma once

#include "compression/cuda/chunk_int8.h"
#include "compression/cuda/chunk_topk_decode.h"

namespace causeway::compression::cuda {

// bad[chunk] becomes 1 unless the chunk is good.
template <typename Group>
constexpr void report(Group& group, bool good, std::uint32_t& bad) {
  group.each([&](unsigned lane) {
    if (lane == 0 && !good) bad = 1;
  });
}

// p = beta * residual + delta; encodes p; next <- p - Q(p). Of a chunk that is not finite, nothing.
template <typename ChunkFormat, typename SharedMemory>
struct EncodeChunks {
  static constexpr unsigned kLanes = kChunkLanes;
  using Memory = SharedMemory;

  ChunkFormat format;
  std::int64_t rows = 0;  // chunks
  DeviceChunk first{};
  std::uint8_t* bytes = nullptr;
  ChunkNorms* norms = nullptr;
  std::uint32_t* bad = nullptr;

  template <typename Group>
  constexpr void row(Group& group, Memory& memory, std::int64_t row) const {
    const auto chunk = static_cast<std::size_t>(row);
    const std::size_t at = chunk * kChunk;
    const DeviceChunk own{first.delta + at, first.residual + at, first.next + at, first.beta};
    report(group,
           encode_chunk(group, format, own, memory, bytes + chunk * format.bytes(), norms[chunk]),
           bad[chunk]);
  }
};

// accumulator += weight * Q, of untrusted bytes. A chunk that is malformed adds anything.
template <typename ChunkFormat, typename SharedMemory, unsigned kLaneCount>
struct DecodeChunks {
  static constexpr unsigned kLanes = kLaneCount;
  using Memory = SharedMemory;

  ChunkFormat format;
  std::int64_t rows = 0;  // chunks
  const std::uint8_t* bytes = nullptr;
  float weight = 0;
  float* accumulator = nullptr;
  std::uint32_t* bad = nullptr;

  template <typename Group>
  constexpr void row(Group& group, Memory& memory, std::int64_t row) const {
    const auto chunk = static_cast<std::size_t>(row);
    report(group,
           decode_add_chunk(group, format, bytes + chunk * format.bytes(), weight,
                            accumulator + chunk * kChunk, memory),
           bad[chunk]);
  }
};

using EncodeTopK = EncodeChunks<TopKFormat, TopKMemory>;
using EncodeInt8 = EncodeChunks<Int8Format, Int8Memory>;
using DecodeTopK = DecodeChunks<TopKFormat, TopKDecodeMemory, 32>;  // its words are few
using DecodeInt8 = DecodeChunks<Int8Format, NoMemory, kChunkLanes>;

template <typename ChunkFormat>
struct JobsOf;
template <>
struct JobsOf<TopKFormat> {
  using Encode = EncodeTopK;
  using Decode = DecodeTopK;
};
template <>
struct JobsOf<Int8Format> {
  using Encode = EncodeInt8;
  using Decode = DecodeInt8;
};

}  // namespace causeway::compression::cuda
