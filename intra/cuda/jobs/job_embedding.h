// The gradients of the embeddings. A token repeats, thousands of times where it is a common one:
// its rows are added in an order that does not depend on the device, without atomics, so that the
// bits repeat.
#pragma once

#include <cstdint>

#include "intra/cuda/jobs/numbers.h"

namespace causeway::intra::cuda {

// What TokenGradient and FoldTokens work on. sorted[i] is the token of row order[i]; equal tokens
// are neighbours, their rows ascend. A block of kTokenBlock of them is one group's. Of a token that
// goes on in the next block a part is left: in `tails` by the block that it begins in, in `heads`
// by those that it goes on in.
inline constexpr std::int64_t kTokenBlock = 32;

struct SortedTokens {
  std::int64_t positions = 0, packs = 0;
  const std::int32_t* sorted = nullptr;
  Pack<float>* heads = nullptr;  // (blocks, packs)
  Pack<float>* tails = nullptr;
  Pack<float>* by_token = nullptr;

  constexpr std::int64_t begin(std::int64_t block) const { return block * kTokenBlock; }
  constexpr std::int64_t end(std::int64_t block) const {
    return begin(block + 1) < positions ? begin(block + 1) : positions;
  }
  // Whether the block's first token began before it, or its last goes on after it.
  constexpr bool from_before(std::int64_t block) const {
    return block > 0 && sorted[begin(block) - 1] == sorted[begin(block)];
  }
  constexpr bool goes_on(std::int64_t block) const {
    return end(block) < positions && sorted[end(block)] == sorted[end(block) - 1];
  }
  constexpr bool is_one_token(std::int64_t block) const {
    return sorted[begin(block)] == sorted[end(block) - 1];
  }
};
constexpr std::int64_t token_blocks(std::int64_t positions) {
  return (positions + kTokenBlock - 1) / kTokenBlock;
}

// by_token[t] += the gradients of the rows of token t, but for what is left in heads and tails.
template <typename T>
struct TokenGradient {
  static constexpr unsigned kLanes = 128;
  struct Memory {};

  std::int64_t rows = 0;  // blocks
  SortedTokens tokens;
  const std::int32_t* order = nullptr;
  const Pack<T>* gradient = nullptr;

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t block) const {
    group.each([&](unsigned lane) {
      for (std::int64_t p = lane; p < tokens.packs; p += kLanes) add(block, p);
    });
  }

 private:
  constexpr void add(std::int64_t block, std::int64_t p) const {
    const std::int64_t begin = tokens.begin(block), end = tokens.end(block);
    for (std::int64_t i = begin; i < end;) {
      const std::int32_t token = tokens.sorted[i];
      const bool is_first = i == begin;
      Floats sum{};
      for (; i < end && tokens.sorted[i] == token; ++i)
        sum = sum + unpack(gradient[order[i] * tokens.packs + p]);
      if (is_first && tokens.from_before(block)) {
        store(sum, tokens.heads[block * tokens.packs + p]);
      } else if (i == end && tokens.goes_on(block)) {
        store(sum, tokens.tails[block * tokens.packs + p]);
      } else {
        Pack<float>& all = tokens.by_token[token * tokens.packs + p];
        store(unpack(all) + sum, all);
      }
    }
  }
};

// Adds those parts up, each token's by the block that it begins in.
struct FoldTokens {
  static constexpr unsigned kLanes = 128;
  struct Memory {};

  std::int64_t rows = 0;  // blocks
  SortedTokens tokens;

  template <typename Group>
  constexpr void row(Group& group, Memory&, std::int64_t first) const {
    const bool began_earlier = tokens.from_before(first) && tokens.is_one_token(first);
    if (!tokens.goes_on(first) || began_earlier) return;
    const std::int32_t token = tokens.sorted[tokens.end(first) - 1];
    group.each([&](unsigned lane) {
      for (std::int64_t p = lane; p < tokens.packs; p += kLanes) {
        Floats sum = unpack(tokens.tails[first * tokens.packs + p]);
        bool more = true;
        for (std::int64_t block = first + 1; more; ++block) {
          sum = sum + unpack(tokens.heads[block * tokens.packs + p]);
          more = tokens.is_one_token(block) && tokens.goes_on(block);
        }
        Pack<float>& all = tokens.by_token[token * tokens.packs + p];
        store(unpack(all) + sum, all);
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
