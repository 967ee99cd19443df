#include "inter/base/sha256_lanes.h"

#if defined(__x86_64__)

#pragma GCC diagnostic push
#ifndef __clang__  // GCC 12 warns of what its own header leaves undefined on purpose (bug 105593)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

// In functions, not for the whole file: a CPU without them must run the rest of it.
#define CAUSEWAY_AVX512 __attribute__((target("avx512f,avx512bw")))

namespace causeway::inter {
namespace {

constexpr std::size_t kLanes = 16;

// A vector has the same word of every lane. The functions are those of FIPS 180-4, section 4.1.2.

CAUSEWAY_AVX512 inline __m512i xor3(__m512i x, __m512i y, __m512i z) {
  return _mm512_ternarylogic_epi32(x, y, z, 0x96);
}

template <int kFirst, int kSecond, int kThird>
CAUSEWAY_AVX512 inline __m512i big_sigma(__m512i x) {
  return xor3(_mm512_ror_epi32(x, kFirst), _mm512_ror_epi32(x, kSecond),
              _mm512_ror_epi32(x, kThird));
}

template <int kFirst, int kSecond, int kShift>
CAUSEWAY_AVX512 inline __m512i small_sigma(__m512i x) {
  return xor3(_mm512_ror_epi32(x, kFirst), _mm512_ror_epi32(x, kSecond),
              _mm512_srli_epi32(x, kShift));
}

// Before: rows[i] has the 16 words of lane i. After: word i of every lane.
CAUSEWAY_AVX512 inline void transpose(__m512i (&rows)[kLanes]) {
  __m512i pairs[kLanes], fours[kLanes], eights[kLanes];
#pragma GCC unroll 16
  for (unsigned i = 0; i < kLanes; ++i) {
    const __m512i one = rows[i & ~1U], other = rows[i | 1];
    pairs[i] = i % 2 == 0 ? _mm512_unpacklo_epi32(one, other) : _mm512_unpackhi_epi32(one, other);
  }
  // fours[4 q + r]: in each quarter, word r of that quarter, of lanes 4 q to 4 q + 3.
#pragma GCC unroll 16
  for (unsigned i = 0; i < kLanes; ++i) {
    const unsigned from = (i & ~3U) + (i % 4) / 2;
    fours[i] = i % 2 == 0 ? _mm512_unpacklo_epi64(pairs[from], pairs[from + 2])
                          : _mm512_unpackhi_epi64(pairs[from], pairs[from + 2]);
  }
  // Quarters of two of those, which have eight lanes: 0 and 2, or 1 and 3.
#pragma GCC unroll 16
  for (unsigned i = 0; i < kLanes; ++i) {
    const unsigned from = (i & 8U) + i % 4;
    eights[i] = (i & 4U) == 0 ? _mm512_shuffle_i32x4(fours[from], fours[from + 4], 0x88)
                              : _mm512_shuffle_i32x4(fours[from], fours[from + 4], 0xDD);
  }
#pragma GCC unroll 16
  for (unsigned i = 0; i < kLanes; ++i) {
    const unsigned from = i & 7U;
    rows[i] = i < 8 ? _mm512_shuffle_i32x4(eights[from], eights[from + 8], 0x88)
                    : _mm512_shuffle_i32x4(eights[from], eights[from + 8], 0xDD);
  }
}

CAUSEWAY_AVX512 inline void load_block(__m512i (&words)[kLanes], const std::byte* const* from,
                                       std::size_t at) {
  const __m512i big_endian =
      _mm512_broadcast_i32x4(_mm_set_epi64x(0x0C0D0E0F08090A0B, 0x0405060700010203));
#pragma GCC unroll 16
  for (std::size_t i = 0; i < kLanes; ++i)
    words[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(from[i] + at), big_endian);
  transpose(words);
}

// Sixteen rounds turn the state twice around, so that `s` has a to h at the end as it had at the
// beginning. The first sixteen take the words of the block as they are.
template <bool kFirst>
CAUSEWAY_AVX512 inline void sixteen_rounds(__m512i (&s)[8], __m512i (&words)[kLanes],
                                           const std::uint32_t* rounds) {
#pragma GCC unroll 16
  for (unsigned t = 0; t < 16; ++t) {
    __m512i& w = words[t];
    if constexpr (!kFirst) {
      w = _mm512_add_epi32(_mm512_add_epi32(w, words[(t + 9) % 16]),
                           _mm512_add_epi32(small_sigma<7, 18, 3>(words[(t + 1) % 16]),
                                            small_sigma<17, 19, 10>(words[(t + 14) % 16])));
    }
    const __m512i a = s[(16 - t) % 8], b = s[(17 - t) % 8], c = s[(18 - t) % 8];
    const __m512i e = s[(20 - t) % 8], f = s[(21 - t) % 8], g = s[(22 - t) % 8];
    __m512i &d = s[(19 - t) % 8], &h = s[(23 - t) % 8];
    const __m512i choice = _mm512_ternarylogic_epi32(e, f, g, 0xCA);
    const __m512i majority = _mm512_ternarylogic_epi32(a, b, c, 0xE8);
    const __m512i round = _mm512_add_epi32(w, _mm512_set1_epi32(static_cast<int>(rounds[t])));
    h = _mm512_add_epi32(_mm512_add_epi32(h, round),
                         _mm512_add_epi32(choice, big_sigma<6, 11, 25>(e)));
    d = _mm512_add_epi32(d, h);
    h = _mm512_add_epi32(h, _mm512_add_epi32(majority, big_sigma<2, 13, 22>(a)));
  }
}

CAUSEWAY_AVX512 void add_blocks(Sha256State* states, const std::byte* const* from,
                                std::size_t blocks) {
  static constexpr Sha256Rounds kRounds;
  alignas(64) std::uint32_t by_word[8][kLanes];
  for (unsigned word = 0; word < 8; ++word)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      by_word[word][lane] = states[lane].words[word];
  __m512i state[8], now[8], words[kLanes];
  for (unsigned word = 0; word < 8; ++word) state[word] = _mm512_load_si512(by_word[word]);
  for (std::size_t block = 0; block < blocks; ++block) {
    load_block(words, from, 64 * block);
    for (unsigned word = 0; word < 8; ++word) now[word] = state[word];
    sixteen_rounds<true>(now, words, kRounds.words);
    for (unsigned t = 16; t < 64; t += 16) sixteen_rounds<false>(now, words, kRounds.words + t);
    for (unsigned word = 0; word < 8; ++word)
      state[word] = _mm512_add_epi32(state[word], now[word]);
  }
  for (unsigned word = 0; word < 8; ++word) _mm512_store_si512(by_word[word], state[word]);
  for (unsigned word = 0; word < 8; ++word)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      states[lane].words[word] = by_word[word][lane];
}

}  // namespace

AddBlocks sha256_sixteen_lanes() {
  const bool here =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
  return here ? add_blocks : nullptr;
}

}  // namespace causeway::inter

#endif
