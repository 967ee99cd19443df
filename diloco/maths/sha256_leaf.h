// SHA-256 (FIPS 180-4) of one leaf of a state's Merkle tree (digest.h), for device code: one thread
// hashes one leaf. No CUDA here: the unit tests run the same lines on the CPU. constexpr, so that
// nvcc compiles them for the device (--expt-relaxed-constexpr).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "diloco/maths/digest.h"

namespace causeway::diloco {

struct Sha256State {
  std::uint32_t words[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
};

// What each of the 64 rounds adds.
struct Sha256Rounds {
  std::uint32_t words[64] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
                             0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
                             0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
                             0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
                             0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
                             0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
                             0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
                             0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
                             0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
                             0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
                             0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
};

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
