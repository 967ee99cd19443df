// What every index format must do, and the sizes of each.
#include "compression/index/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/compression/codecs/samples.h"

namespace causeway::compression {
namespace {

using Positions = std::vector<std::uint16_t>;
using Bytes = std::vector<std::byte>;

std::unique_ptr<IndexFormat> make(const std::string& name) {
  Spec spec("any:index=" + name);
  return make_index(spec, "");
}

Bytes encoded(const IndexFormat& format, const Positions& positions) {
  Bytes bytes(format.bytes_max(positions.size()));
  bytes.resize(format.encode(positions, bytes.data()));
  return bytes;
}

// Empty if refused.
Positions decoded(const IndexFormat& format, const Bytes& bytes, std::size_t count) {
  Positions positions(count);
  return format.decode(bytes, positions) ? positions : Positions{};
}

class EveryIndex : public testing::TestWithParam<const char*> {
 protected:
  const std::unique_ptr<IndexFormat> format_ = make(GetParam());
};

TEST_P(EveryIndex, RoundTripsAnySetOfPositionsWithinItsSizes) {
  EXPECT_EQ(format_->name(), GetParam());
  for (const std::size_t count : {1U, 2U, 3U, 41U, 64U, 65U, 1419U, 1420U, 2049U, 4095U, 4096U}) {
    Positions first(count), last(count);
    std::iota(first.begin(), first.end(), std::uint16_t{0});
    std::iota(last.begin(), last.end(), static_cast<std::uint16_t>(kChunk - count));
    Positions ends = first;
    ends.back() = kChunk - 1;
    for (const Positions& positions :
         {first, last, ends, random_positions(count, 1), random_positions(count, 2)}) {
      const Bytes bytes = encoded(*format_, positions);
      EXPECT_EQ(decoded(*format_, bytes, count), positions) << count;
      EXPECT_GE(bytes.size(), format_->bytes_min(count));
      EXPECT_LE(bytes.size(), format_->bytes_max(count));
    }
    EXPECT_TRUE(format_->bytes_vary() || format_->bytes_min(count) == format_->bytes_max(count));
  }
}

// Whatever decodes is what encode() writes: one byte string for one set, and no other is let in.
TEST_P(EveryIndex, RefusesAChangedByteOrDecodesCanonically) {
  for (const std::size_t count : {1U, 3U, 41U, 64U}) {
    const Bytes good = encoded(*format_, random_positions(count, 9));
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (int value = 0; value < 256; value += good.size() < 100 ? 1 : 5) {
        Bytes bytes = good;
        bytes[at] = static_cast<std::byte>(value);
        const Positions positions = decoded(*format_, bytes, count);
        if (positions.empty()) continue;
        ASSERT_EQ(encoded(*format_, positions), bytes) << count << " " << at << " " << value;
      }
    }
  }
}

TEST_P(EveryIndex, RefusesAnyBytesOrDecodesCanonically) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::size_t count = 1 + mix(seed) % 200;
    const std::size_t least = format_->bytes_min(count);
    const std::size_t most = format_->bytes_max(count);
    Bytes bytes(least + mix(seed + 1000) % (most - least + 1));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(seed % 3 == 0 ? 0xFF : mix(seed << 32 | i));
    }
    const Positions positions = decoded(*format_, bytes, count);
    if (positions.empty()) continue;
    EXPECT_EQ(encoded(*format_, positions), bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryIndex,
                         testing::Values("elias-fano", "rice", "packed-12", "bitmap", "raw"),
                         [](const auto& name) {
                           std::string plain = name.param;
                           std::replace(plain.begin(), plain.end(), '-', '_');
                           return plain;
                         });

double log2_binomial(double n, double k) {
  return (std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1)) / std::log(2.0);
}

TEST(IndexSize, EliasFanoIsWithinTenPercentOfTheBoundAtSixtyFour) {
  const double bound = log2_binomial(kChunk, 64) / 64;
  EXPECT_NEAR(bound, 7.36, 0.01);
  const auto bits = static_cast<double>(make("elias-fano")->bytes_max(64) * 8) / 64;
  EXPECT_EQ(bits, 8.0);
  EXPECT_LT(bits / bound, 1.10);
}

double rice_bits_per_position(std::size_t count) {
  const auto rice = make("rice");
  constexpr std::uint64_t kTrials = 400;
  std::size_t bytes = 0;
  for (std::uint64_t seed = 0; seed < kTrials; ++seed) {
    bytes += encoded(*rice, random_positions(count, seed)).size();
  }
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(kTrials * count);
}

TEST(IndexSize, RiceIsWithinThreePercentOfTheEntropy) {
  for (const std::size_t count : {41U, 64U, 123U, 410U}) {
    const double p = static_cast<double>(count) / kChunk;
    const double entropy = (-p * std::log2(p) - (1 - p) * std::log2(1 - p)) / p;
    EXPECT_LT(rice_bits_per_position(count) / entropy, 1.03) << count;
  }
}

TEST(IndexSize, OthersAreAsComputed) {
  EXPECT_EQ(make("packed-12")->bytes_max(64), 96U);
  EXPECT_EQ(make("raw")->bytes_max(64), 256U);
  EXPECT_EQ(make("bitmap")->bytes_max(64), 512U);
}

TEST(Rice, WritesQuotientsInOnesThenLowBits) {
  // k = 64: r = 5. Skipped before 0: none; before 70: 69 = 2 * 32 + 5; then none.
  Positions positions(64);
  std::iota(positions.begin(), positions.end(), std::uint16_t{69});
  positions[0] = 0;
  const Bytes bytes = encoded(*make("rice"), positions);
  EXPECT_EQ(bytes.size(), 64U * 6 / 8 + 1);
  EXPECT_EQ(bytes[0], std::byte{0b11'000000});   // 0 | 00000, then the ones of 2
  EXPECT_EQ(bytes[1], std::byte{0b00'00101'0});  // a zero, then 5
}

}  // namespace
}  // namespace causeway::compression
