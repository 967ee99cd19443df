// What device code does with one chunk, whatever its codec: p = beta * residual + delta before, the
// next residual and the norms after. In this folder, chunk_*.h hold the logic and no CUDA: the unit
// tests run the same lines on the CPU. They are constexpr because nvcc then compiles them for the
// device too (--expt-relaxed-constexpr).
//
// A chunk is the work of a Group of lanes (a thread block, or one thread that plays all lanes in
// turn), which share memory. The operations of a group are collective; f(lane) is what one lane
// does, and may not read what another lane writes in the same operation:
//   each(f)                 f(lane)
//   any(f), count(f)        is f(lane) true for any lane, for how many
//   sum(f), max(f)          over f(lane)
//   exclusive_sum(f)        of f over the lanes before it, for each lane
//   ballots(words, n, f)    for each row below n: f(lane, row) is bit lane % 32 of
//                           words[lane / 32 * n + row]
//   set_bits(word, mask)    not collective: word |= mask by any lanes at once, into shared memory
// and PerLane<T> is a variable that each lane has of its own, as of[lane].
#pragma once

#include <cstddef>
#include <cstdint>

#include "compression/base/chunk.h"

namespace causeway::compression::cuda {

// As many as there are sums in sum_of_squares, each with the elements of its sum.
inline constexpr unsigned kChunkLanes = 256;
inline constexpr unsigned kRows = kChunk / kChunkLanes;

constexpr unsigned element_of(unsigned lane, unsigned row) {
  return lane / 32 * 512 + row * 32 + lane % 32;
}

// One chunk of each.
struct DeviceChunk {
  const float* delta;
  const float* residual;
  float* next;  // p - Q(p); may be delta, or residual
  float beta;
};

struct ChunkNorms {
  double input = 0;  // ||p||^2
  double error = 0;  // ||p - Q(p)||^2
};

struct ChunkMemory {
  float p[kChunk];
  double sums[kChunkLanes];
};

// The tree of sum_of_squares from the lanes' sums on. Only lane 0 may use the result.
template <typename Group>
constexpr double add_lanes(Group& group, ChunkMemory& memory) {
  for (unsigned half = kChunkLanes / 2; half > 0; half /= 2) {
    group.each([&](unsigned lane) {
      if (lane < half) memory.sums[lane] += memory.sums[lane + half];
    });
  }
  return memory.sums[0];
}

// The largest magnitudes, as their bits, of each quarter of each lane's elements.
inline constexpr unsigned kQuarters = 4;
struct Largest {
  std::uint32_t of_quarter[kQuarters];

  constexpr std::uint32_t of_all() const {
    std::uint32_t all = 0;
    for (const std::uint32_t bits : of_quarter) all = bits > all ? bits : all;
    return all;
  }
};
template <typename Group>
using LargestPerLane = typename Group::template PerLane<Largest>;

// Fills memory.p and `largest`. False, with `norms` as they were, if not finite.
template <typename Group>
constexpr bool form_p(Group& group, const DeviceChunk& chunk, ChunkMemory& memory,
                      LargestPerLane<Group>& largest, ChunkNorms& norms) {
  group.each([&](unsigned lane) {
    double sum = 0;
    Largest own{};
    for (unsigned row = 0; row < kRows; ++row) {
      const unsigned i = element_of(lane, row);
      const float p = chunk.beta * chunk.residual[i] + chunk.delta[i];
      memory.p[i] = p;
      sum += static_cast<double>(p) * static_cast<double>(p);
      const std::uint32_t magnitude = magnitude_bits(p);
      std::uint32_t& top = own.of_quarter[row % kQuarters];
      top = magnitude > top ? magnitude : top;
    }
    memory.sums[lane] = sum;
    largest.of(lane) = own;
  });
  if (group.any([&](unsigned lane) { return largest.of(lane).of_all() >= kInfinityBits; }))
    return false;
  const double input = add_lanes(group, memory);
  group.each([&](unsigned lane) {
    if (lane == 0) norms.input = input;
  });
  return true;
}

// Keeps rest(i) = p - Q(p) of each element i as the next residual.
template <typename Group, typename Rest>
constexpr void keep_rest(Group& group, const DeviceChunk& chunk, ChunkMemory& memory,
                         ChunkNorms& norms, const Rest& rest) {
  group.each([&](unsigned lane) {
    double sum = 0;
    for (unsigned row = 0; row < kRows; ++row) {
      const unsigned i = element_of(lane, row);
      const float x = rest(i);
      chunk.next[i] = x;
      sum += static_cast<double>(x) * static_cast<double>(x);
    }
    memory.sums[lane] = sum;
  });
  const double error = add_lanes(group, memory);
  group.each([&](unsigned lane) {
    if (lane == 0) norms.error = error;
  });
}

}  // namespace causeway::compression::cuda
