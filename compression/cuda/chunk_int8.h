// dense:int8: one chunk by a group of lanes (chunk_feedback.h).
#pragma once

#include <bit>

#include "compression/base/bit_math.h"
#include "compression/cuda/chunk_feedback.h"
#include "compression/value/int8.h"

namespace causeway::compression::cuda {

struct Int8Format {
  std::size_t block;  // elements per scale; divides kChunk
  unsigned shift = bits_needed(block) - 1;

  constexpr std::size_t block_of(std::size_t element) const { return element >> shift; }

  constexpr std::size_t blocks() const { return kChunk / block; }
  constexpr std::size_t bytes() const { return 2 * blocks() + kChunk; }
};

// Maxima are taken over runs of this many elements first, then pairwise.
inline constexpr unsigned kRun = kChunk / kChunkLanes;

struct Int8Memory {
  ChunkMemory chunk;
  std::uint32_t largest[kChunkLanes];  // magnitude bits, per run, then per block
  std::uint16_t scales[kChunkLanes];   // per block of at least one run
};

// Magnitude bits of the largest of elements begin ... begin + count - 1, a power of two of them.
// Starts within them at `from`, so that lanes need not all read the same memory bank.
constexpr std::uint32_t largest_of(const float* p, std::size_t begin, std::size_t count,
                                   std::size_t from) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t bits = magnitude_bits(p[begin + ((i + from) & (count - 1))]);
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

// memory.largest of each block, for blocks of at least one run.
template <typename Group>
constexpr void find_largest(Group& group, const Int8Format& format, Int8Memory& memory) {
  group.each([&](unsigned lane) {
    memory.largest[lane] = largest_of(memory.chunk.p, std::size_t{kRun} * lane, kRun, lane % kRun);
  });
  unsigned left = kChunkLanes;
  for (std::size_t width = kRun; width < format.block; width *= 2) {
    left /= 2;
    typename Group::template PerLane<std::uint32_t> pair{};
    group.each([&](unsigned lane) {
      if (lane >= left) return;
      const std::uint32_t a = memory.largest[2 * lane];
      const std::uint32_t b = memory.largest[2 * lane + 1];
      pair.of(lane) = a > b ? a : b;
    });
    group.each([&](unsigned lane) {
      if (lane < left) memory.largest[lane] = pair.of(lane);
    });
  }
}

template <typename Group>
constexpr void find_scales(Group& group, const Int8Format& format, Int8Memory& memory) {
  if (format.block < kRun) return;
  find_largest(group, format, memory);
  group.each([&](unsigned lane) {
    if (lane >= format.blocks()) return;
    memory.scales[lane] = int8_scale(std::bit_cast<float>(memory.largest[lane]));
  });
}

constexpr std::uint16_t scale_of(const Int8Format& format, std::size_t block,
                                 const Int8Memory& memory) {
  if (format.block >= kRun) return memory.scales[block];
  const std::uint32_t largest = largest_of(memory.chunk.p, block * format.block, format.block, 0);
  return int8_scale(std::bit_cast<float>(largest));
}

// Writes format.bytes() bytes. False, with nothing written, if p is not finite.
template <typename Group>
constexpr bool encode_chunk(Group& group, const Int8Format& format, const DeviceChunk& chunk,
                            Int8Memory& memory, std::uint8_t* out, ChunkNorms& norms) {
  LargestPerLane<Group> largest{};
  if (!form_p(group, chunk, memory.chunk, largest, norms)) return false;
  find_scales(group, format, memory);
  group.each([&](unsigned lane) {
    for (std::size_t block = lane; block < format.blocks(); block += kChunkLanes) {
      const std::uint16_t scale = scale_of(format, block, memory);
      out[2 * block] = static_cast<std::uint8_t>(scale);
      out[2 * block + 1] = static_cast<std::uint8_t>(scale >> 8);
    }
  });
  std::uint8_t* codes = out + 2 * format.blocks();
  keep_rest(group, chunk, memory.chunk, norms, [&](unsigned i) {
    const float x = memory.chunk.p[i];
    const std::uint16_t bits = scale_of(format, format.block_of(i), memory);
    const float scale = ufloat16_value(bits);
    const std::int32_t code = round_quotient(x, bits == 0 ? 1.0F : scale);
    codes[i] = static_cast<std::uint8_t>(code);
    return x - scale * static_cast<float>(code);
  });
  return true;
}

// accumulator += weight * Q, for the elements of one lane. False unless the bytes that it sees are
// canonical; what was added is unspecified then.
constexpr bool decode_add_int8_lane(unsigned lane, const Int8Format& format,
                                    const std::uint8_t* bytes, float weight, float* accumulator) {
  const std::uint8_t* codes = bytes + 2 * format.blocks();
  bool canonical = true;
  for (unsigned row = 0; row < kRows; ++row) {
    const unsigned i = element_of(lane, row);
    const std::uint8_t* at = bytes + 2 * (format.block_of(i));
    const auto bits = static_cast<std::uint16_t>(at[0] | at[1] << 8);
    const auto code = static_cast<std::int8_t>(codes[i]);
    canonical &= bits <= kInt8ScaleMax && code != -128 && (bits != 0 || code == 0);
    accumulator[i] += weight * (ufloat16_value(bits) * static_cast<float>(code));
  }
  return canonical;
}

struct NoMemory {};

template <typename Group>
constexpr bool decode_add_chunk(Group& group, const Int8Format& format, const std::uint8_t* bytes,
                                float weight, float* accumulator, NoMemory&) {
  return !group.any([&](unsigned lane) {
    return !decode_add_int8_lane(lane, format, bytes, weight, accumulator);
  });
}

}  // namespace causeway::compression::cuda
