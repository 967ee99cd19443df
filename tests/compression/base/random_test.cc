// Chance: the generator and stochastic rounding.
#include "compression/base/random.h"
#include "compression/codecs/make_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/compression/codecs/encoded.h"
#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

// The known answers that the authors publish with Random123.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxBlock{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  constexpr std::uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (PhiloxBlock{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(philox({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
            (PhiloxBlock{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Units, BelongToAnElementAndNotToACall) {
  const EncodeKey key{.seed = 5, .round = 6, .region = 7, .first_element = 8 * kChunk};
  Floats all(2 * kChunk), second(100);
  draw_units(key, all);
  EncodeKey later = key;
  later.first_element += kChunk;
  draw_units(later, second);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), all.begin() + kChunk));
  EXPECT_EQ(all[2], unit_interval(philox({2 * kChunk, 0, 6, 7}, {5, 0})[2]));
}

TEST(Units, AreUniformAndDifferWithEveryPartOfTheKey) {
  const EncodeKey base{.seed = 1, .round = 1, .region = 1, .first_element = 0};
  std::set<Floats> seen;
  for (const EncodeKey& key :
       {base, EncodeKey{.seed = 2, .round = 1, .region = 1, .first_element = 0},
        EncodeKey{.seed = std::uint64_t{1} << 32 | 1, .round = 1, .region = 1, .first_element = 0},
        EncodeKey{.seed = 1, .round = 2, .region = 1, .first_element = 0},
        EncodeKey{.seed = 1, .round = 1, .region = 2, .first_element = 0},
        EncodeKey{.seed = 1, .round = 1, .region = 1, .first_element = kChunk},
        EncodeKey{.seed = 1, .round = 1, .region = 1, .first_element = std::uint64_t{1} << 40}}) {
    Floats units(kChunk);
    draw_units(key, units);
    EXPECT_TRUE(seen.insert(units).second);
    double sum = 0;
    for (const float u : units) {
      ASSERT_GE(u, 0.0F);
      ASSERT_LT(u, 1.0F);
      sum += u;
    }
    EXPECT_NEAR(sum / kChunk, 0.5, 4 * std::sqrt(1.0 / 12 / kChunk));
  }
}

class Stochastic : public testing::TestWithParam<const char*> {};

// Over many rounds the mean of what is decoded is what was encoded; to nearest it would not be.
TEST_P(Stochastic, RoundingIsUnbiased) {
  const std::string spec = std::string("dense:") + GetParam() + ",block=4096";
  const auto codec = make_codec(spec + ",rounding=stochastic");
  const Floats input = draw(laplace_at, kChunk);
  constexpr std::uint32_t kRounds = 200;
  std::vector<double> sum(kChunk);
  double variance = 0;  // of one decoded value, summed over all
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const Encoded result = encode(*codec, input, {.seed = 1, .round = round});
    variance += result.stats.error_norm_squared / kRounds;
    for (std::size_t i = 0; i < kChunk; ++i) sum[i] += result.decoded[i];
  }
  double bias = 0;
  for (std::size_t i = 0; i < kChunk; ++i) bias += std::pow(sum[i] / kRounds - input[i], 2);
  EXPECT_NEAR(bias / (variance / kRounds), 1, 0.15) << "more than chance leaves";
  const double nearest = encode(*make_codec(spec), input).stats.error_norm_squared;
  EXPECT_GT(nearest, 4 * bias);
}

INSTANTIATE_TEST_SUITE_P(All, Stochastic, testing::Values("int8", "int4"));

}  // namespace
}  // namespace causeway::compression
