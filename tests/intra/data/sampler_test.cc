#include "intra/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "tests/intra/expect_refusal.h"
#include "tests/intra/temporary_directory.h"

namespace causeway::intra {
namespace {

std::vector<std::uint64_t> order(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
  const Permutation permutation(size, seed, epoch);
  std::vector<std::uint64_t> values(size);
  for (std::uint64_t i = 0; i < size; ++i) values[i] = permutation(i);
  return values;
}

TEST(Permutation, HitsEveryIndexOnce) {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      std::vector<std::uint64_t> values = order(size, seed, 0);
      std::sort(values.begin(), values.end());
      for (std::uint64_t i = 0; i < size; ++i) ASSERT_EQ(values[i], i) << "size " << size;
    }
  }
}

TEST(Permutation, IsTheSameEverywhereAndAlways) {
  // Resuming a run relies on these.
  EXPECT_THAT(order(5, 1, 0), testing::ElementsAreArray(order(5, 1, 0)));
  const Permutation large(std::uint64_t{1} << 62, 7, 3);
  EXPECT_EQ(large(0), large(0));
  EXPECT_LT(large((std::uint64_t{1} << 62) - 1), std::uint64_t{1} << 62);
}

TEST(Permutation, DependsOnSeedAndEpoch) {
  EXPECT_NE(order(1000, 1, 0), order(1000, 2, 0));
  EXPECT_NE(order(1000, 1, 0), order(1000, 1, 1));
  // Seed and epoch must not be interchangeable.
  EXPECT_NE(order(1000, 1, 2), order(1000, 2, 1));
}

TEST(Permutation, LooksRandom) {
  // Of n random positions about one stays, and about half of the neighbours ascend.
  const std::vector<std::uint64_t> values = order(10'000, 5, 0);
  std::size_t fixed = 0, ascents = 0;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    fixed += values[i] == i;
    ascents += values[i] < values[i + 1];
  }
  EXPECT_LT(fixed, 10U);
  EXPECT_NEAR(static_cast<double>(ascents), 5000, 200);
}

// A dataset whose token i is i, so that a window tells where it starts.
class Samples : public testing::Test {
 protected:
  Dataset numbered(std::uint16_t count) const {
    std::vector<std::uint16_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
    const std::string file = directory_.file(
        "tokens", {reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2});
    return Dataset({.files = {file},
                    .format = DataOptions::Format::uint16,
                    .validation_fraction = 0,
                    .vocabulary = 65536});
  }

  static std::int32_t first_token(const Sampler& sampler, std::int64_t context,
                                  std::uint64_t cursor) {
    std::vector<std::int32_t> tokens(context), targets(context);
    sampler.read(cursor, tokens, targets);
    for (std::int64_t i = 0; i < context; ++i) {
      EXPECT_EQ(tokens[i], tokens[0] + i);
      EXPECT_EQ(targets[i], tokens[i] + 1);
    }
    return tokens[0];
  }

  TemporaryDirectory directory_;
};

TEST_F(Samples, CoverEveryWindowOnceInAnEpoch) {
  const Dataset dataset = numbered(41);
  const Sampler sampler(dataset, 8, 1, 0, 1);
  ASSERT_EQ(sampler.samples_per_epoch(), 5U);
  std::vector<std::int32_t> starts;
  for (std::uint64_t cursor = 0; cursor < 5; ++cursor) {
    starts.push_back(first_token(sampler, 8, cursor));
  }
  EXPECT_THAT(starts, testing::UnorderedElementsAre(0, 8, 16, 24, 32));
}

TEST_F(Samples, NeedATargetForTheirLastToken) {
  EXPECT_EQ(Sampler(numbered(40), 8, 1, 0, 1).samples_per_epoch(), 4U);
  EXPECT_EQ(Sampler(numbered(9), 8, 1, 0, 1).samples_per_epoch(), 1U);
}

TEST_F(Samples, AreDisjointBetweenRegionsAndCompleteTogether) {
  const Dataset dataset = numbered(8 * 101 + 1);
  std::multiset<std::int32_t> starts;
  for (std::size_t region = 0; region < 3; ++region) {
    const Sampler sampler(dataset, 8, 1, region, 3);
    EXPECT_EQ(sampler.samples_per_epoch(), region < 2 ? 34U : 33U);
    for (std::uint64_t cursor = 0; cursor < sampler.samples_per_epoch(); ++cursor) {
      starts.insert(first_token(sampler, 8, cursor));
    }
  }
  EXPECT_EQ(starts.size(), 101U);
  EXPECT_EQ(std::set<std::int32_t>(starts.begin(), starts.end()).size(), 101U);
}

TEST_F(Samples, ComeInAnotherOrderEachEpoch) {
  const Dataset dataset = numbered(8 * 50 + 1);
  const Sampler sampler(dataset, 8, 1, 0, 1);
  std::vector<std::int32_t> first, second;
  for (std::uint64_t cursor = 0; cursor < 50; ++cursor) {
    first.push_back(first_token(sampler, 8, cursor));
    second.push_back(first_token(sampler, 8, cursor + 50));
  }
  EXPECT_NE(first, second);
  EXPECT_THAT(second, testing::UnorderedElementsAreArray(first));
}

TEST_F(Samples, OfANewPassAreSharedAnewAndInAnotherOrder) {
  const Dataset dataset = numbered(8 * 101 + 1);
  std::multiset<std::int32_t> starts;
  std::vector<std::int32_t> before, after;
  for (std::uint32_t region = 0; region < 4; ++region) {
    Sampler sampler(dataset, 8, 1, region % 3, 3);
    for (std::uint64_t cursor = 0; cursor < 5; ++cursor) {
      before.push_back(first_token(sampler, 8, cursor));
    }
    const std::uint64_t begin = 1000 + region;
    sampler.set_share({.index = region, .count = 4, .pass = 1, .begin = begin});
    for (std::uint64_t place = 0; place < sampler.samples_per_epoch(); ++place) {
      starts.insert(first_token(sampler, 8, begin + place));
      if (place < 5) after.push_back(first_token(sampler, 8, begin + place));
    }
  }
  EXPECT_EQ(starts.size(), 101U);
  EXPECT_EQ(std::set<std::int32_t>(starts.begin(), starts.end()).size(), 101U);
  EXPECT_NE(before, after);
}

TEST_F(Samples, RefuseMoreRegionsThanWindows) {
  const Dataset dataset = numbered(17);
  EXPECT_NO_THROW(Sampler(dataset, 8, 1, 1, 2));
  expect_refusal(Errc::bad_data, {"17 tokens", "2 windows of context 8", "3 regions"},
                 [&] { Sampler(dataset, 8, 1, 2, 3); });
}

}  // namespace
}  // namespace causeway::intra
