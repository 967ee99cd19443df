// Decoding of untrusted topk chunks by a group of lanes (chunk_feedback.h); the checks are those of
// the CPU's decoders.
#pragma once

#include "compression/base/bit_math.h"
#include "compression/cuda/chunk_topk.h"

namespace causeway::compression::cuda {

struct TopKDecodeMemory {
  std::uint16_t indices[kChunk];
};

// Four bytes of `size`, from the one at `at` on; zeros beyond the end.
constexpr std::uint32_t word_at(const std::uint8_t* bytes, std::size_t at, std::size_t size) {
  std::uint32_t word = 0;
  for (unsigned b = 0; b < 4 && at + b < size; ++b) word |= std::uint32_t{bytes[at + b]} << b * 8;
  return word;
}

// Fills memory.indices. False unless there are k of them, ascending and below kChunk.
template <typename Group>
constexpr bool read_indices(Group& group, const EliasFano& index, const std::uint8_t* bytes,
                            TopKDecodeMemory& memory) {
  const std::uint8_t* high = bytes + index.low_bytes();
  bool in_range = packed_rest_is_zero(bytes, index.low_bits, index.k);
  std::size_t before = 0;  // indices in earlier words
  for (std::size_t first = 0; first < index.high_bytes(); first += 4 * Group::kLanes) {
    const auto word = [&](unsigned lane) {
      return word_at(high, first + 4 * lane, index.high_bytes());
    };
    const auto rank = group.exclusive_sum([&](unsigned lane) { return set_bits(word(lane)); });
    in_range &= !group.any([&](unsigned lane) {
      bool bad = false;
      std::size_t i = before + rank.of(lane);
      for (std::uint32_t bits = word(lane); bits != 0 && !bad; bits &= bits - 1, ++i) {
        const std::size_t position = 8 * first + 32 * lane + lowest_set_bit(bits);
        const std::uint32_t low = i < index.k ? packed_field(bytes, index.low_bits, i) : 0;
        const std::size_t at = i < index.k ? index.index_at(position, i, low) : kChunk;
        bad = at >= kChunk;
        if (!bad) memory.indices[i] = static_cast<std::uint16_t>(at);
      }
      return bad;
    });
    before += group.sum([&](unsigned lane) { return set_bits(word(lane)); });
  }
  if (!in_range || before != index.k) return false;
  return !group.any([&](unsigned lane) {
    bool descends = false;
    for (std::size_t i = lane + 1; i < index.k; i += Group::kLanes) {
      descends |= memory.indices[i] <= memory.indices[i - 1];
    }
    return descends;
  });
}

constexpr std::uint32_t code_at(const std::uint8_t* codes, std::size_t i) {
  return codes[i / 4] >> i % 4 * 2 & 3U;
}

// What two_bit_decode demands.
template <typename Group>
constexpr bool codes_are_canonical(Group& group, std::size_t k, Centroids centroids,
                                   const std::uint8_t* codes) {
  const auto any_code = [&](const auto& is) {
    return group.any([&](unsigned lane) {
      bool own = false;
      for (std::size_t i = lane; i < k; i += Group::kLanes) own |= is(code_at(codes, i));
      return own;
    });
  };
  const bool high = any_code([](std::uint32_t code) { return (code & kTwoBitHigh) != 0; });
  const bool low = any_code([](std::uint32_t code) { return (code & kTwoBitHigh) == 0; });
  const bool minus_low = any_code([](std::uint32_t code) { return code == kTwoBitNegative; });
  const TwoBitUse use{.low = low, .high = high, .low_negative = minus_low};
  const std::uint32_t unused = k % 4 == 0 ? 0U : codes[k / 4] >> k % 4 * 2;
  return unused == 0 && use.is_canonical(centroids);
}

// accumulator += weight * Q. False, with nothing added, unless canonical.
template <typename Group>
constexpr bool decode_add_chunk(Group& group, const TopKFormat& format, const std::uint8_t* bytes,
                                float weight, float* accumulator, TopKDecodeMemory& memory) {
  const std::uint8_t* codes = bytes + format.index.bytes();
  const std::uint32_t both = word_at(codes, format.code_bytes(), format.code_bytes() + 4);
  Centroids centroids;
  centroids.low = static_cast<std::uint16_t>(both);
  centroids.high = static_cast<std::uint16_t>(both >> 16);
  if (!read_indices(group, format.index, bytes, memory)) return false;
  if (!codes_are_canonical(group, format.k(), centroids, codes)) return false;
  group.each([&](unsigned lane) {
    for (std::size_t i = lane; i < format.k(); i += Group::kLanes) {
      accumulator[memory.indices[i]] += weight * two_bit_value(code_at(codes, i), centroids);
    }
  });
  return true;
}

}  // namespace causeway::compression::cuda
