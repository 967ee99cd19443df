// The gradients of the embeddings. A token repeats, so its rows are added in order by one group: no
// atomics, so that the bits repeat.
#pragma once

#include <cstdint>

#include "intra/cuda/jobs/numbers.h"

namespace causeway::intra::cuda {

// sorted[i] is the token of row order[i]; equal tokens are neighbours, their rows ascend.
template <typename T>
struct TokenGradient {
  static constexpr unsigned kLanes = 128;
  struct Memory {};

  std::int64_t rows = 0, packs = 0;
  const std::int32_t* order = nullptr;
  const std::int32_t* sorted = nullptr;
  const Pack<T>* gradient = nullptr;
  Pack<float>* by_token = nullptr;

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t first) const {
    const std::int32_t token = sorted[first];
    if (first > 0 && sorted[first - 1] == token) return;  // done by the first of them
    group.each([&](unsigned lane) {
      for (std::int64_t p = lane; p < packs; p += kLanes) {
        Floats sum = unpack(by_token[token * packs + p]);
        for (std::int64_t i = first; i < rows && sorted[i] == token; ++i) {
          sum = sum + unpack(gradient[order[i] * packs + p]);
        }
        store(sum, by_token[token * packs + p]);
      }
    });
  }
};

template <typename T>
struct PositionGradient {
  std::int64_t batch = 0, length = 0, packs = 0;
  const Pack<T>* gradient = nullptr;
  Pack<float>* by_position = nullptr;

  constexpr std::int64_t count() const { return length * packs; }
  constexpr void element(std::int64_t i) const {
    Floats sum = unpack(by_position[i]);
    for (std::int64_t sequence = 0; sequence < batch; ++sequence) {
      sum = sum + unpack(gradient[sequence * length * packs + i]);
    }
    store(sum, by_position[i]);
  }
};

}  // namespace causeway::intra::cuda
