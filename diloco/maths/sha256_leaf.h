// SHA-256 (FIPS 180-4) of one leaf of a state's Merkle tree (digest.h), for device code: one thread
// hashes one leaf. No CUDA here: the unit tests run the same lines on the CPU. constexpr, so that
// nvcc compiles them for the device (--expt-relaxed-constexpr).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "diloco/maths/digest.h"
#include "inter/base/sha256_state.h"

namespace causeway::diloco {

using inter::Sha256Rounds;
using inter::Sha256State;

// `block`: 16 big-endian words, used up.
constexpr void add_block(Sha256State& state, std::uint32_t (&block)[16]) {
  constexpr Sha256Rounds kRounds;
  auto [a, b, c, d, e, f, g, h] = state.words;
#ifdef __CUDA_ARCH__
#pragma unroll  // so that block and constants are in registers and instructions, not on the stack
#endif
  for (unsigned t = 0; t < 64; ++t) {
    if (t >= 16) {
      const std::uint32_t x = block[(t + 1) & 15], y = block[(t + 14) & 15];
      block[t & 15] += (std::rotr(x, 7) ^ std::rotr(x, 18) ^ x >> 3) + block[(t + 9) & 15] +
                       (std::rotr(y, 17) ^ std::rotr(y, 19) ^ y >> 10);
    }
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                ((e & f) ^ (~e & g)) + kRounds.words[t] + block[t & 15];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::uint32_t end[8] = {a, b, c, d, e, f, g, h};
  for (unsigned i = 0; i < 8; ++i) state.words[i] += end[i];
}

// The message is a tag byte of 0 and then the floats' bytes, little-endian: a big-endian word of it
// has the top byte of one float and the three lower ones of the next, in their order.
constexpr std::uint32_t message_word(std::uint32_t before, std::uint32_t after) {
  return (before & 0xFF000000U) | (after & 0xFFU) << 16 | (after & 0xFF00U) | (after >> 16 & 0xFFU);
}

// SHA-256(0x00 || the bytes of kLeafElements values).
constexpr void hash_leaf(const float* values, Digest& digest) {
  Sha256State state;
  std::uint32_t block[16] = {};
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < kLeafElements; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i]);
    block[i % 16] = message_word(before, bits);
    before = bits;
    if (i % 16 == 15) add_block(state, block);
  }
  // The last byte, the bit that ends the message, and its length in bits.
  block[0] = message_word(before, 0x80);
  for (unsigned i = 1; i < 15; ++i) block[i] = 0;
  block[15] = 8 * (1 + kLeafElements * sizeof(float));
  add_block(state, block);
  for (unsigned i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::uint8_t>(state.words[i / 4] >> (24 - 8 * (i % 4)));
}

}  // namespace causeway::diloco
