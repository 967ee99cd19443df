// topk with two-bit values and Elias-Fano indices: one chunk by a group of lanes
// (chunk_feedback.h).
#pragma once

#include "compression/base/bit_math.h"
#include "compression/cuda/chunk_feedback.h"
#include "compression/index/elias_fano.h"
#include "compression/sparsifier/topk.h"
#include "compression/value/two_bit.h"

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
  std::uint32_t bitmap[kBitmapWords];    // of the candidates: a bit per element
  std::uint32_t high[2 * kBitmapWords];  // of the indices; k + 4096 / 2^l bits are at most 8,192
  std::uint32_t candidate_count;
  std::uint16_t candidates[kChunk];  // ascending
  std::uint16_t indices[kChunk];     // the k chosen, ascending

  constexpr std::uint32_t candidate_key(std::uint32_t i) const {
    return magnitude_bits(chunk.p[candidates[i]]);
  }
};

// What the k largest reach at least: as in select_topk, a bound among the largest of groups, of
// which there are k or more.
template <typename Group>
constexpr std::uint32_t bound_of(Group& group, LargestPerLane<Group>& largest, std::uint32_t k,
                                 std::uint32_t above_all) {
  const auto lanes_at_least = [&](std::uint32_t threshold) {
    return group.count([&](unsigned lane) { return largest.of(lane).of_all() >= threshold; });
  };
  const auto quarters_at_least = [&](std::uint32_t threshold) {
    return group.sum([&](unsigned lane) {
      std::uint32_t own = 0;
      for (const std::uint32_t bits : largest.of(lane).of_quarter) own += bits >= threshold ? 1 : 0;
      return own;
    });
  };
  if (k <= kChunkLanes) return bisect(0, above_all, k, k + k / 8, lanes_at_least);
  if (k > kQuarters * kChunkLanes) return 0;
  return bisect(0, above_all, k, k + k / 8, quarters_at_least);
}

// Fills memory.candidates with all that reach the bound.
template <typename Group>
constexpr void collect(Group& group, std::uint32_t bound, TopKMemory& memory) {
  group.ballots(memory.bitmap, kRows, [&](unsigned lane, unsigned row) {
    return magnitude_bits(memory.chunk.p[element_of(lane, row)]) >= bound;
  });
  const auto rank = group.exclusive_sum([&](unsigned lane) -> std::uint32_t {
    return lane < kBitmapWords ? set_bits(memory.bitmap[lane]) : 0;
  });
  group.each([&](unsigned lane) {
    if (lane >= kBitmapWords) return;
    std::uint32_t at = rank.of(lane);
    for (std::uint32_t left = memory.bitmap[lane]; left != 0; left &= left - 1) {
      memory.candidates[at++] = static_cast<std::uint16_t>(lane * 32 + lowest_set_bit(left));
    }
    if (lane == kBitmapWords - 1) memory.candidate_count = at;
  });
}

// How many candidates reach the threshold.
template <typename Group>
constexpr std::uint32_t candidates_at_least(Group& group, const TopKMemory& memory,
                                            std::uint32_t threshold) {
  const std::uint32_t count = memory.candidate_count;
  if (count <= kChunkLanes) {
    return group.count(
        [&](unsigned lane) { return lane < count && memory.candidate_key(lane) >= threshold; });
  }
  return group.sum([&](unsigned lane) {
    std::uint32_t own = 0;
    for (std::uint32_t i = lane; i < count; i += kChunkLanes) {
      own += memory.candidate_key(i) >= threshold ? 1 : 0;
    }
    return own;
  });
}

// Fills memory.indices with the candidates that the cut keeps. `exact`: it keeps all that reach it.
template <typename Group>
constexpr void keep(Group& group, const Cut& cut, bool exact, TopKMemory& memory) {
  const std::uint32_t count = memory.candidate_count;
  std::uint32_t kept = 0;
  std::uint32_t ties = 0;
  for (std::uint32_t first = 0; first < count; first += kChunkLanes) {
    const auto key = [&](unsigned lane) {
      return first + lane < count ? memory.candidate_key(first + lane) : 0;
    };
    const auto is_tie = [&](unsigned lane) {
      return first + lane < count && key(lane) == cut.threshold;
    };
    typename Group::template PerLane<std::uint32_t> ties_before{};
    if (!exact) {
      ties_before =
          group.exclusive_sum([&](unsigned lane) -> std::uint32_t { return is_tie(lane); });
    }
    const auto stays = [&](unsigned lane) {
      const bool tie_stays = is_tie(lane) && (exact || ties + ties_before.of(lane) < cut.ties);
      return key(lane) > cut.threshold || tie_stays;
    };
    const auto rank =
        group.exclusive_sum([&](unsigned lane) -> std::uint32_t { return stays(lane); });
    group.each([&](unsigned lane) {
      if (stays(lane)) memory.indices[kept + rank.of(lane)] = memory.candidates[first + lane];
    });
    if (count <= kChunkLanes) return;
    kept += group.count(stays);
    ties += exact ? 0 : group.count(is_tie);
  }
}

// Fills memory.indices with the k largest.
template <typename Group>
constexpr void choose(Group& group, LargestPerLane<Group>& largest, std::uint32_t k,
                      TopKMemory& memory) {
  const std::uint32_t above_all =
      group.max([&](unsigned lane) { return largest.of(lane).of_all(); }) + 1;
  const std::uint32_t bound = bound_of(group, largest, k, above_all);
  collect(group, bound, memory);
  const auto at_least = [&](std::uint32_t threshold) {
    return candidates_at_least(group, memory, threshold);
  };
  const Cut cut = cut_at(bound, above_all, k, at_least);
  keep(group, cut, at_least(cut.threshold) == k, memory);
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
constexpr bool encode_chunk(Group& group, const TopKFormat& format, const DeviceChunk& chunk,
                            TopKMemory& memory, std::uint8_t* out, ChunkNorms& norms) {
  LargestPerLane<Group> largest{};
  if (!form_p(group, chunk, memory.chunk, largest, norms)) return false;
  const auto k = static_cast<std::uint32_t>(format.k());
  choose(group, largest, k, memory);
  const TwoBitChoice choice = divide(group, k, memory);
  write_indices(group, format.index, memory, out);
  write_values(group, format, choice, memory, out + format.index.bytes());
  keep_rest(group, chunk, memory.chunk, norms, [&](unsigned i) { return memory.chunk.p[i]; });
  return true;
}

}  // namespace causeway::compression::cuda
