// topk with two-bit values and Elias-Fano indices: one chunk by a group of lanes
// (chunk_feedback.h).
#pragma once

#include "compression/bit_math.h"
#include "compression/cuda/chunk_feedback.h"
#include "compression/elias_fano.h"
#include "compression/select.h"
#include "compression/two_bit.h"

namespace causeway::compression::cuda {

struct TopKFormat {
  EliasFano index;

  constexpr std::size_t k() const { return index.k; }
  constexpr std::size_t code_bytes() const { return bytes_for_bits(2 * k()); }
  constexpr std::size_t bytes() const { return index.bytes() + code_bytes() + 4; }
};

inline constexpr unsigned kBitmapWords = kChunk / 32;

struct TopKMemory {
  ChunkMemory chunk;
  std::uint32_t chosen[kBitmapWords];    // a bit per element
  std::uint32_t equal[kBitmapWords];     // to the threshold
  std::uint32_t high[2 * kBitmapWords];  // of the indices; k + 4096 / 2^l bits are at most 8,192
  std::uint16_t indices[kChunk];
};

// The cut between the k largest and the rest, as select_largest finds it: first among the lanes'
// largest for a bound, then among all.
template <typename Group>
constexpr Cut find_cut(Group& group, const float* p, std::uint32_t k) {
  struct Keys {
    std::uint32_t of[kRows];
    std::uint32_t largest;
  };
  typename Group::template PerLane<Keys> keys{};
  group.each([&](unsigned lane) {
    Keys& own = keys.of(lane);
    own.largest = 0;
    for (unsigned row = 0; row < kRows; ++row) {
      own.of[row] = magnitude_bits(p[element_of(lane, row)]);
      own.largest = own.of[row] > own.largest ? own.of[row] : own.largest;
    }
  });
  const std::uint32_t above_all =
      group.max([&](unsigned lane) { return keys.of(lane).largest; }) + 1;
  const auto lanes_at_least = [&](std::uint32_t threshold) {
    return group.count([&](unsigned lane) { return keys.of(lane).largest >= threshold; });
  };
  const auto at_least = [&](std::uint32_t threshold) {
    return group.sum([&](unsigned lane) {
      std::uint32_t count = 0;
      for (const std::uint32_t key : keys.of(lane).of) count += key >= threshold ? 1 : 0;
      return count;
    });
  };
  const std::uint32_t bound =
      k <= kChunkLanes ? bisect(0, above_all, k, k + k / 8, lanes_at_least) : 0;
  return cut_at(bound, above_all, k, at_least);
}

// Fills memory.indices.
template <typename Group>
constexpr void choose(Group& group, std::uint32_t k, TopKMemory& memory) {
  const float* p = memory.chunk.p;
  const Cut cut = find_cut(group, p, k);
  const auto bits = [&](unsigned lane, unsigned row) {
    return magnitude_bits(p[element_of(lane, row)]);
  };
  group.ballots(memory.chosen, kRows,
                [&](unsigned lane, unsigned row) { return bits(lane, row) > cut.threshold; });
  group.ballots(memory.equal, kRows,
                [&](unsigned lane, unsigned row) { return bits(lane, row) == cut.threshold; });
  const auto ties_before = group.exclusive_sum([&](unsigned lane) -> std::uint32_t {
    return lane < kBitmapWords ? set_bits(memory.equal[lane]) : 0;
  });
  group.each([&](unsigned lane) {
    if (lane >= kBitmapWords) return;
    const std::uint32_t before = ties_before.of(lane);
    Cut own{cut.threshold, cut.ties > before ? cut.ties - before : 0};
    memory.chosen[lane] |= static_cast<std::uint32_t>(own.take_ties(memory.equal[lane]));
  });
  const auto rank = group.exclusive_sum([&](unsigned lane) -> std::uint32_t {
    return lane < kBitmapWords ? set_bits(memory.chosen[lane]) : 0;
  });
  group.each([&](unsigned lane) {
    if (lane >= kBitmapWords) return;
    std::uint32_t at = rank.of(lane);
    for (std::uint32_t left = memory.chosen[lane]; left != 0; left &= left - 1) {
      memory.indices[at++] = static_cast<std::uint16_t>(lane * 32 + lowest_set_bit(left));
    }
  });
}

struct TwoBitChoice {
  std::uint32_t high_from;
  Centroids centroids;
};

// The classes of the chosen values.
template <typename Group>
constexpr TwoBitChoice divide(Group& group, std::uint32_t k, const TopKMemory& memory) {
  const auto for_own = [&](unsigned lane, const auto& visit) {
    for (unsigned i = lane; i < k; i += kChunkLanes) {
      visit(magnitude_bits(memory.chunk.p[memory.indices[i]]));
    }
  };
  const std::uint32_t largest = group.max([&](unsigned lane) {
    std::uint32_t own = 0;
    for_own(lane, [&](std::uint32_t bits) { own = bits > own ? bits : own; });
    return own;
  });
  const bool zeros = group.any([&](unsigned lane) {
    bool own = false;
    for_own(lane, [&](std::uint32_t bits) { own |= bits == 0; });
    return own;
  });
  const std::uint32_t exponent = exponent_field(largest);
  const auto sum_from = [&](std::uint32_t least) {
    return group.sum([&](unsigned lane) {
      std::uint64_t own = 0;
      for_own(lane,
              [&](std::uint32_t bits) { own += bits >= least ? fixed_point(bits, exponent) : 0; });
      return own;
    });
  };
  const std::uint64_t total = sum_from(0);
  const std::uint32_t from = high_from(total, k, exponent, zeros);
  ClassSum high{.total = sum_from(from)};
  high.count = group.sum([&](unsigned lane) {
    std::uint32_t own = 0;
    for_own(lane, [&](std::uint32_t bits) { own += bits >= from ? 1 : 0; });
    return own;
  });
  return {from, centroids_of({total - high.total, k - high.count}, high, exponent, zeros)};
}

template <typename Group>
constexpr void write_indices(Group& group, const EliasFano& index, TopKMemory& memory,
                             std::uint8_t* out) {
  group.each([&](unsigned lane) {
    for (std::size_t b = lane; b < index.low_bytes(); b += kChunkLanes) {
      out[b] = index.low_byte(memory.indices, b);
    }
    for (unsigned word = lane; word < 2 * kBitmapWords; word += kChunkLanes) memory.high[word] = 0;
  });
  group.each([&](unsigned lane) {
    for (std::size_t i = lane; i < index.k; i += kChunkLanes) {
      const std::size_t position = index.high_position(memory.indices[i], i);
      group.set_bits(memory.high[position / 32], std::uint32_t{1} << position % 32);
    }
  });
  group.each([&](unsigned lane) {
    for (std::size_t b = lane; b < index.high_bytes(); b += kChunkLanes) {
      out[index.low_bytes() + b] = static_cast<std::uint8_t>(memory.high[b / 4] >> b % 4 * 8);
    }
  });
}

// Codes and centroids; memory.chunk.p becomes p - Q(p).
template <typename Group>
constexpr void write_values(Group& group, const TopKFormat& format, const TwoBitChoice& choice,
                            TopKMemory& memory, std::uint8_t* out) {
  const auto code_of = [&](std::size_t i) {
    return two_bit_code(memory.chunk.p[memory.indices[i]], choice.high_from);
  };
  group.each([&](unsigned lane) {
    for (std::size_t b = lane; b < format.code_bytes(); b += kChunkLanes) {
      std::uint32_t byte = 0;
      for (std::size_t i = 4 * b; i < 4 * b + 4 && i < format.k(); ++i) {
        byte |= code_of(i) << i % 4 * 2;
      }
      out[b] = static_cast<std::uint8_t>(byte);
    }
    if (lane == 0) {
      const std::uint32_t both = choice.centroids.low | std::uint32_t{choice.centroids.high} << 16;
      for (unsigned b = 0; b < 4; ++b) {
        out[format.code_bytes() + b] = static_cast<std::uint8_t>(both >> b * 8);
      }
    }
  });
  group.each([&](unsigned lane) {
    for (std::size_t i = lane; i < format.k(); i += kChunkLanes) {
      float& x = memory.chunk.p[memory.indices[i]];
      x -= two_bit_value(code_of(i), choice.centroids);
    }
  });
}

// Writes format.bytes() bytes. False, with nothing written, if p is not finite.
template <typename Group>
constexpr bool encode_topk_chunk(Group& group, const TopKFormat& format, const DeviceChunk& chunk,
                                 TopKMemory& memory, std::uint8_t* out, ChunkNorms& norms) {
  if (!form_p(group, chunk, memory.chunk, norms)) return false;
  const auto k = static_cast<std::uint32_t>(format.k());
  choose(group, k, memory);
  const TwoBitChoice choice = divide(group, k, memory);
  write_indices(group, format.index, memory, out);
  write_values(group, format, choice, memory, out + format.index.bytes());
  keep_rest(group, chunk, memory.chunk, norms, [&](unsigned i) { return memory.chunk.p[i]; });
  return true;
}

}  // namespace causeway::compression::cuda
