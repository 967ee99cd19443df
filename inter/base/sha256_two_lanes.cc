#include "inter/base/sha256_lanes.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

// In functions, not for the whole file: a CPU without them must run the rest of it.
#define CAUSEWAY_SHA_NI __attribute__((target("sha,sse4.1,ssse3")))

namespace causeway::inter {
namespace {

constexpr std::size_t kLanes = 2;

// The eight words of a state (FIPS 180-4: a to h) in the order in which the instructions want them.
struct Lane {
  __m128i abef, cdgh;
};

CAUSEWAY_SHA_NI Lane lane_of(const Sha256State& state) {
  const auto word = [&state](int i) { return static_cast<int>(state.words[i]); };
  return {_mm_set_epi32(word(0), word(1), word(4), word(5)),
          _mm_set_epi32(word(2), word(3), word(6), word(7))};
}

CAUSEWAY_SHA_NI Sha256State state_of(const Lane& lane) {
  std::uint32_t abef[4], cdgh[4];  // the last first
  _mm_storeu_si128(reinterpret_cast<__m128i*>(abef), lane.abef);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(cdgh), lane.cdgh);
  return {{abef[3], abef[2], cdgh[3], cdgh[2], abef[1], abef[0], cdgh[1], cdgh[0]}};
}

CAUSEWAY_SHA_NI __m128i load_words(const std::byte* from) {
  const __m128i big_endian = _mm_set_epi64x(0x0C0D0E0F08090A0B, 0x0405060700010203);
  return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), big_endian);
}

// The four words of the schedule that follow on the sixteen in `w`, of which the oldest are in
// w[group % 4].
CAUSEWAY_SHA_NI __m128i next_words(const __m128i (&w)[4], unsigned group) {
  const __m128i last = w[(group + 3) % 4];
  const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w[group % 4], w[(group + 1) % 4]),
                                    _mm_alignr_epi8(last, w[(group + 2) % 4], 4));
  return _mm_sha256msg2_epu32(sum, last);
}

// A block of each message, four rounds of each in turn.
CAUSEWAY_SHA_NI void add_block(Lane (&lanes)[kLanes], const std::byte* const* from,
                               std::size_t at) {
  static constexpr Sha256Rounds kRounds;
  Lane now[kLanes];
  __m128i words[kLanes][4];
  for (std::size_t i = 0; i < kLanes; ++i) now[i] = lanes[i];
#pragma GCC unroll 16
  for (unsigned group = 0; group < 16; ++group) {
    const __m128i rounds =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(&kRounds.words[4 * group]));
#pragma GCC unroll 2
    for (std::size_t i = 0; i < kLanes; ++i) {
      __m128i& w = words[i][group % 4];
      w = group < 4 ? load_words(from[i] + at + 16 * group) : next_words(words[i], group);
      const __m128i sum = _mm_add_epi32(w, rounds);
      now[i].cdgh = _mm_sha256rnds2_epu32(now[i].cdgh, now[i].abef, sum);
      now[i].abef = _mm_sha256rnds2_epu32(now[i].abef, now[i].cdgh, _mm_shuffle_epi32(sum, 0x0E));
    }
  }
  for (std::size_t i = 0; i < kLanes; ++i) {
    lanes[i].abef = _mm_add_epi32(lanes[i].abef, now[i].abef);
    lanes[i].cdgh = _mm_add_epi32(lanes[i].cdgh, now[i].cdgh);
  }
}

CAUSEWAY_SHA_NI void add_blocks(Sha256State* states, const std::byte* const* from,
                                std::size_t blocks) {
  Lane lanes[kLanes] = {lane_of(states[0]), lane_of(states[1])};
  for (std::size_t block = 0; block < blocks; ++block) add_block(lanes, from, 64 * block);
  for (std::size_t i = 0; i < kLanes; ++i) states[i] = state_of(lanes[i]);
}

}  // namespace

AddBlocks sha256_two_lanes() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kFeatures = 7, kSha = 1U << 29;
  const bool here = __get_cpuid_count(kFeatures, 0, &eax, &ebx, &ecx, &edx) != 0 &&
                    (ebx & kSha) != 0 && __builtin_cpu_supports("sse4.1") != 0;
  return here ? add_blocks : nullptr;
}

}  // namespace causeway::inter

#endif
