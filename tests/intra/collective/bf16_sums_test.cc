// Sums in bfloat16 of spans in the host's memory, over Gloo.
#include "intra/collective/bf16_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "intra/base/bfloat16.h"
#include "tests/intra/collective/bf16_sums_conformance.h"

namespace causeway::intra {
namespace {

INSTANTIATE_TEST_SUITE_P(OnCpu, Bf16SumsConformance,
                         testing::Values(Bf16SumsUnderTest{.name = "Gloo", .world = 2},
                                         Bf16SumsUnderTest{.name = "Gloo", .world = 3},
                                         Bf16SumsUnderTest{.name = "Gloo", .world = 5}),
                         name_of_sums);

TEST(Bfloat16, IsTheNearestAndKeepsNans) {
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 65'521) {  // a prime
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const float rounded = first_of_word(bf16_bits(value));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(rounded)) << bits;
    } else {
      ASSERT_EQ(rounded, nearest_bf16(value)) << bits;
    }
  }
}

// What its rank hands to the others, as the algorithms send it: in an exchange each part but its
// own, in a gathering round a ring all but one of the parts.
class Counted final : public ForwardingCollective {
 public:
  using ForwardingCollective::ForwardingCollective;
  void all_reduce_sum(std::span<float>) override { ADD_FAILURE() << "a sum in fp32"; }
  void exchange_parts(std::span<const float> values, std::span<const std::size_t> counts,
                      std::span<float> received) override {
    sent_bytes += values.size_bytes() - counts[rank()] * sizeof(float);
    group().exchange_parts(values, counts, received);
  }
  void all_gather_parts(std::span<float> values, std::span<const std::size_t> counts) override {
    sent_bytes += values.size_bytes() - counts[(rank() + 1) % size()] * sizeof(float);
    group().all_gather_parts(values, counts);
  }
  std::size_t sent_bytes = 0;
};

TEST(HostBf16Sums, SendHalfTheBytesOfARingInFp32) {
  constexpr std::size_t kElements = 4096, kRanks = 4;
  constexpr std::size_t kOfRing = 2 * (kRanks - 1) * kElements * sizeof(float) / kRanks;
  on_ranks(kRanks, [&](Collective& hosts) {
    Counted counted(hosts);
    const auto sums = make_host_bf16_sums(counted, {kElements / 2, kElements / 2});
    std::vector<float> values(kElements, 1);
    sums->all_reduce_sum(values);
    EXPECT_THAT(values, testing::Each(kRanks));
    EXPECT_EQ(counted.sent_bytes, kOfRing / 2);
    counted.sent_bytes = 0;
    sums->reduce_scatter_sum(values, even_parts(kElements, kRanks));
    EXPECT_EQ(counted.sent_bytes, kOfRing / 4);
  });
}

TEST(Bf16Room, IsOfTheLargestBucketAndOfWhatARankAddsUp) {
  const diloco::Layout layout({{"a", {64, 64}}, {"b", {64, 100}}, {"x", {7}}});
  const GradientBuckets even(layout, 2 * sizeof(float) * 4096);
  using Result = GradientReducer::Result;
  const Bf16Room shared = bf16_room(even, Result::everywhere, 0, 2);
  EXPECT_EQ(shared.own, 4096);
  EXPECT_EQ(shared.received, 4096);
  const GradientBuckets whole(layout, 2 * sizeof(float) * 4096, {{0, 4096}, {4096, 12'288}});
  EXPECT_EQ(bf16_room(whole, Result::everywhere, 1, 2).received, 4096);
  EXPECT_EQ(bf16_room(whole, Result::own_parts, 0, 2).received, 4096);  // the first matrix
  EXPECT_EQ(bf16_room(whole, Result::own_parts, 1, 2).received, 8192);  // the second
}

TEST(HostBf16Sums, AcceptEmptySpans) {
  on_ranks(2, [](Collective& hosts) {
    const auto sums = make_host_bf16_sums(hosts, {});
    sums->all_reduce_sum({});
    sums->reduce_scatter_sum({}, std::vector<std::size_t>{0, 0});
    EXPECT_EQ(sums->size(), 2);
    sums->barrier();
  });
}

}  // namespace
}  // namespace causeway::intra
