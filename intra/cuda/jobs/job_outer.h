// Outer rounds on spans that begin at a chunk. Canonical: unlike a step's jobs, these are compiled
// without fused multiply-adds (outer_kernels.cu), and what they compute is what the CPU does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compression/base/chunk.h"
#include "diloco/maths/outer_element.h"
#include "diloco/maths/sha256_leaf.h"
#include "intra/base/global_norm.h"
#include "intra/cuda/jobs/numbers.h"

namespace causeway::intra::cuda {

struct CopyPacks {
  std::int64_t packs = 0;
  const Pack<float>* from = nullptr;
  Pack<float>* to = nullptr;

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const { to[i] = from[i]; }
};

// delta = base - params. bad[chunk] becomes 1 if some beta * residual + delta of it is not finite.
struct TakeDelta {
  std::int64_t packs = 0;
  float beta = 0;
  const Pack<float>* base = nullptr;
  const Pack<float>* params = nullptr;
  const Pack<float>* residual = nullptr;
  Pack<float>* delta = nullptr;
  std::uint32_t* bad = nullptr;

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    const Floats from = unpack(base[i]), to = unpack(params[i]), rest = unpack(residual[i]);
    Floats difference{};
    bool finite = true;
    for (unsigned k = 0; k < kPack; ++k) {
      difference.v[k] = diloco::pseudo_gradient_element(from.v[k], to.v[k]);
      finite &= compression::is_finite(beta * rest.v[k] + difference.v[k]);
    }
    store(difference, delta[i]);
    constexpr auto kPacks = static_cast<std::int64_t>(compression::kChunk / kPack);
    if (!finite) bad[i / kPacks] = 1;
  }
};

// The sums of global_norm(), of many spans at once: each thread goes through a block's part one
// number after the other, so that one span alone would leave most of a GPU idle.
struct SquareBlock {
  std::size_t begin = 0, elements = 0;  // a multiple of kSquareSums
};
// Those of one span.
inline void append_blocks(std::size_t begin, std::size_t elements,
                          std::vector<SquareBlock>& blocks) {
  for (; elements > kSquareBlock; begin += kSquareBlock, elements -= kSquareBlock)
    blocks.push_back({begin, kSquareBlock});
  if (elements > 0) blocks.push_back({begin, elements});
}
struct BlockSquares {
  std::size_t blocks_count = 0;
  const SquareBlock* blocks = nullptr;
  const float* values = nullptr;
  double* sums = nullptr;  // kSquareSums of each block

  constexpr std::int64_t count() const {
    return static_cast<std::int64_t>(blocks_count * kSquareSums);
  }
  constexpr void element(std::int64_t i) const {
    const auto index = static_cast<std::size_t>(i);
    const SquareBlock block = blocks[index / kSquareSums];
    sums[index] = square_sum(values + block.begin, block.elements, index % kSquareSums);
  }
};

// diloco::outer_step.
struct StepAnchor {
  std::int64_t packs = 0;
  diloco::OuterOptions::Kind kind{};
  float lr = 0, momentum_decay = 0;  // of nesterov and sgd
  diloco::DelayedFactors delayed{};  // of delayed_nesterov
  const Pack<float>* delta = nullptr;
  Pack<float>* anchor = nullptr;
  Pack<float>* momentum = nullptr;

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    const Floats difference = unpack(delta[i]);
    Floats place = unpack(anchor[i]), speed = unpack(momentum[i]);
    for (unsigned k = 0; k < kPack; ++k) step(difference.v[k], place.v[k], speed.v[k]);
    store(place, anchor[i]);
    store(speed, momentum[i]);
  }

 private:
  constexpr void step(float difference, float& place, float& speed) const {
    switch (kind) {
      case diloco::OuterOptions::Kind::nesterov:
        return diloco::nesterov_element(lr, momentum_decay, difference, place, speed);
      case diloco::OuterOptions::Kind::delayed_nesterov:
        return diloco::delayed_nesterov_element(delayed, difference, place, speed);
      case diloco::OuterOptions::Kind::sgd:
        return diloco::sgd_element(lr, difference, place);
    }
  }
};

// diloco::mix.
struct Mix {
  std::int64_t packs = 0;
  float alpha = 0;
  const Pack<float>* anchor = nullptr;
  Pack<float>* base = nullptr;
  Pack<float>* params = nullptr;

  constexpr std::int64_t count() const { return packs; }
  constexpr void element(std::int64_t i) const {
    const Floats shared = unpack(anchor[i]);
    Floats from = unpack(base[i]), own = unpack(params[i]);
    for (unsigned k = 0; k < kPack; ++k)
      diloco::mix_element(alpha, shared.v[k], from.v[k], own.v[k]);
    store(from, base[i]);
    store(own, params[i]);
  }
};

// diloco::merkle_leaves.
struct HashLeaves {
  std::int64_t leaves = 0;
  const float* values = nullptr;
  diloco::Digest* digests = nullptr;

  constexpr std::int64_t count() const { return leaves; }
  constexpr void element(std::int64_t i) const {
    diloco::hash_leaf(values + static_cast<std::size_t>(i) * diloco::kLeafElements, digests[i]);
  }
};

}  // namespace causeway::intra::cuda
