// What sums that travel as bfloat16 must come to, bit for bit, wherever they are computed. A test
// program instantiates it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "intra/collective/bf16_sums.h"
#include "tests/intra/collective/on_ranks.h"

namespace causeway::intra {

// An implementation, in groups of `world`.
struct Bf16SumsUnderTest {
  using OnValues = std::function<void(Collective& sums, std::span<float> there)>;
  std::string name;
  std::size_t world = 2;
  // On a rank's own thread: runs the operation on values where the implementation works on them,
  // and brings them back.
  std::function<void(Collective& hosts, const Bf16Room&, std::span<float>, const OnValues&)>
      operate =
          [](Collective& hosts, const Bf16Room& room, std::span<float> values,
             const OnValues& operation) { operation(*make_host_bf16_sums(hosts, room), values); };
};

// In another way than the code has it: as a whole number of the last place that bfloat16 keeps.
inline float nearest_bf16(float value) {
  constexpr int kBits = 8, kSmallestPlace = -133;
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int place = std::max(exponent - kBits, kSmallestPlace);
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(double{value}, -place)), place);
  constexpr double kMost = 3.3895313892515355e38;  // (2 - 2^-7) 2^127
  if (std::abs(rounded) > kMost)
    return std::copysign(std::numeric_limits<float>::infinity(), value);
  return static_cast<float>(rounded);
}

class Bf16SumsConformance : public testing::TestWithParam<Bf16SumsUnderTest> {
 protected:
  using Result = GradientReducer::Result;
  using Values = std::vector<float>;

  std::size_t world() const { return GetParam().world; }

  // What every rank has after the sum of all buckets. `of(rank, i)`: its numbers.
  std::vector<Values> sums(const GradientBuckets& buckets, std::size_t size, Result result,
                           const std::function<float(std::size_t, std::size_t)>& of) {
    std::vector<Values> after(world());
    on_ranks(world(), [&](Collective& hosts) {
      Values values(size);
      for (std::size_t i = 0; i < size; ++i) values[i] = of(hosts.rank(), i);
      const auto sum_all = [&](Collective& group, std::span<float> there) {
        for (std::size_t index = 0; index < buckets.all().size(); ++index) {
          const Range& range = buckets.all()[index];
          const auto bucket = there.subspan(range.begin, range.count());
          if (result == Result::everywhere) {
            group.all_reduce_sum(bucket);
          } else {
            group.reduce_scatter_sum(bucket, buckets.counts(index, world()));
          }
        }
      };
      GetParam().operate(hosts, bf16_room(buckets, result, hosts.rank(), world()), values, sum_all);
      after[hosts.rank()] = std::move(values);
    });
    return after;
  }

  static std::vector<std::uint32_t> bits(std::span<const float> values) {
    std::vector<std::uint32_t> bits;
    for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
    return bits;
  }

  // Matrices of 1, 2 and 1 chunks of which two have one owner each, and vectors.
  const diloco::Layout layout_{{{"a", {64, 64}}, {"b", {64, 100}}, {"c", {3, 5}}, {"x", {7}}}};
  const GradientBuckets buckets_{layout_, 2 * sizeof(float) * 4096, {{0, 4096}, {4096, 12'288}}};
};

struct GoldenSum {
  std::array<float, 3> of_rank;
  float in_fp32, in_bf16;  // over two ranks
  float over_three;        // in bf16
};
inline constexpr float kBf16Infinity = std::numeric_limits<float>::infinity();
inline constexpr std::array<GoldenSum, 9> kGoldenSums{{
    {{1.00390625F, 0, 0}, 1, 1, 1},                               // 1 + 2^-8: a tie, down to even
    {{1.01171875F, 0, 0}, 1.015625F, 1.015625F, 1.015625F},       // 1 + 3 2^-8: a tie, up to even
    {{1.0039063692F, 0, 0}, 1.0078125F, 1.0078125F, 1.0078125F},  // one fp32 above the tie
    {{1, 0.00390625F, 0.00390625F}, 1.00390625F, 1, 1.0078125F},  // no rounding between ranks
    {{256, 1, 1}, 257, 256, 258},
    {{-3, 3, 0.1F}, 0, 0, 0.10009765625F},
    {{FLT_MAX, 0, 0}, kBf16Infinity, kBf16Infinity, kBf16Infinity},
    {{0x1p-133F, 0x1p-133F, 0}, 0x1p-132F, 0x1p-132F, 0x1p-132F},  // denormals are kept
    {{-0.0F, -0.0F, -0.0F}, -0.0F, -0.0F, -0.0F},
}};

TEST_P(Bf16SumsConformance, GiveTheGoldenNumbersOnEveryRank) {
  const auto value = [](std::size_t rank, std::size_t i) {
    return rank < 3 ? kGoldenSums[i % kGoldenSums.size()].of_rank[rank] : 0;
  };
  const auto everywhere = sums(buckets_, layout_.size(), Result::everywhere, value);
  Values expected(layout_.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const GoldenSum& golden = kGoldenSums[i % kGoldenSums.size()];
    expected[i] = world() == 2 ? golden.in_bf16 : golden.over_three;
  }
  if (world() > 3) {  // 0 more makes -0 a 0
    for (float& number : expected) number += 0;
  }
  for (const Values& found : everywhere) EXPECT_EQ(bits(found), bits(expected));
  if (world() != 2) return;
  const auto own = sums(buckets_, layout_.size(), Result::own_parts, value);
  for (std::size_t rank = 0; rank < world(); ++rank) {
    for (const Range& part : buckets_.parts(rank, world())) {
      for (std::size_t i = part.begin; i < part.end; ++i) {
        const float golden = kGoldenSums[i % kGoldenSums.size()].in_fp32;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(own[rank][i]), std::bit_cast<std::uint32_t>(golden))
            << "rank " << rank << ", element " << i;
      }
    }
  }
}

TEST_P(Bf16SumsConformance, RoundEveryRanksNumbersOnceAndTheirSumOnce) {
  const auto value = [](std::size_t rank, std::size_t i) {
    // Of sizes so different that the order in which they are added makes a difference.
    return std::sin(static_cast<float>(i * 7 + rank)) *
           std::exp2(static_cast<float>((i + 11 * rank) % 40) - 20);
  };
  Values expected(layout_.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = nearest_bf16(value(0, i));
    for (std::size_t rank = 1; rank < world(); ++rank) expected[i] += nearest_bf16(value(rank, i));
  }
  const auto own = sums(buckets_, layout_.size(), Result::own_parts, value);
  std::size_t owned = 0;
  for (std::size_t rank = 0; rank < world(); ++rank) {
    for (const Range& part : buckets_.parts(rank, world())) {
      const auto here = [&](std::span<const float> all) {
        return bits(all.subspan(part.begin, part.count()));
      };
      EXPECT_EQ(here(own[rank]), here(expected)) << "rank " << rank;
      owned += part.count();
    }
  }
  EXPECT_EQ(owned, layout_.size());
  for (float& sum : expected) sum = nearest_bf16(sum);
  const auto everywhere = sums(buckets_, layout_.size(), Result::everywhere, value);
  for (const Values& found : everywhere) EXPECT_EQ(bits(found), bits(expected));
}

inline std::string name_of_sums(const testing::TestParamInfo<Bf16SumsUnderTest>& tested) {
  return tested.param.name + std::to_string(tested.param.world);
}

}  // namespace causeway::intra
