#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "intra/cuda/jobs/job_embedding.h"
#include "tests/intra/cuda/serial_backend.h"

namespace causeway::intra::cuda {
namespace {

constexpr std::int64_t kPacks = 3;

// Whole numbers, so that every order of adding them gives the same sum.
struct Embedding {
  std::vector<std::int32_t> tokens;  // of each row
  std::int32_t vocabulary = 0;

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  static float gradient(std::int64_t row, std::int64_t element) {
    return static_cast<float>((row * 31 + element * 7) % 17 - 8);
  }

  std::vector<float> expected() const {
    std::vector<float> sums(static_cast<std::size_t>(vocabulary * kPacks * kPack), 1);
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t e = 0; e < kPacks * kPack; ++e)
        sums[static_cast<std::size_t>(tokens[static_cast<std::size_t>(row)] * kPacks * kPack +
                                      e)] += gradient(row, e);
    }
    return sums;
  }

  std::vector<float> computed(bool backwards) const {
    std::vector<std::int32_t> order(tokens.size()), sorted(tokens.size());
    std::iota(order.begin(), order.end(), 0);
    const auto token_of = [this](std::int32_t row) {
      return tokens[static_cast<std::size_t>(row)];
    };
    std::ranges::stable_sort(order, {}, token_of);
    std::ranges::transform(order, sorted.begin(), token_of);
    std::vector<Pack<float>> gradients(tokens.size() * kPacks);
    for (std::int64_t row = 0; row < rows(); ++row) {
      for (std::int64_t e = 0; e < kPacks * kPack; ++e)
        gradients[static_cast<std::size_t>(row * kPacks + e / kPack)].v[e % kPack] =
            gradient(row, e);
    }
    const std::int64_t blocks = token_blocks(rows());
    Pack<float> one{}, poison{};
    std::ranges::fill(one.v, 1.0F);
    std::ranges::fill(poison.v, 1e30F);
    std::vector<Pack<float>> heads(static_cast<std::size_t>(blocks * kPacks), poison),
        tails = heads;
    std::vector<Pack<float>> sums(static_cast<std::size_t>(vocabulary * kPacks), one);
    const SortedTokens work{rows(), kPacks, sorted.data(), heads.data(), tails.data(), sums.data()};
    const SerialOrder serial{.backwards = backwards, .mutex = {}, .all = {}};
    serial.play(TokenGradient<float>{blocks, work, order.data(), gradients.data()});
    serial.play(FoldTokens{blocks, work});
    std::vector<float> flat;
    for (const Pack<float>& pack : sums) flat.insert(flat.end(), pack.v, pack.v + kPack);
    return flat;
  }
};

// Tokens in runs of these lengths, in shuffled rows.
Embedding with_runs(const std::vector<std::size_t>& lengths) {
  Embedding embedding;
  for (const std::size_t length : lengths)
    embedding.tokens.insert(embedding.tokens.end(), length, embedding.vocabulary++);
  std::ranges::shuffle(embedding.tokens, std::mt19937(3));
  return embedding;
}

TEST(EmbeddingGradient, AddsUpRunsOfEveryLength) {
  const std::vector<std::vector<std::size_t>> cases{
      {1},         {31, 1},      {32},         {33},         {31, 2, 31},        {64, 64},
      {2400},      {1, 2400, 1}, {32, 32, 32}, {16, 32, 16}, {5, 27, 100, 1, 3}, {95, 33, 1, 31},
      {1, 1, 1, 1}};
  for (const auto& lengths : cases) {
    const Embedding embedding = with_runs(lengths);
    EXPECT_EQ(embedding.computed(false), embedding.expected()) << lengths.front();
    EXPECT_EQ(embedding.computed(true), embedding.expected()) << lengths.front();
  }
}

TEST(EmbeddingGradient, AddsUpRandomRuns) {
  std::mt19937 chance(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> lengths(1 + chance() % 20);
    for (std::size_t& length : lengths) length = 1 + chance() % (round % 3 == 0 ? 100 : 5);
    const Embedding embedding = with_runs(lengths);
    ASSERT_EQ(embedding.computed(round % 2 == 0), embedding.expected()) << "round " << round;
  }
}

TEST(EmbeddingGradient, OfAnotherOrderOfGroupsHasTheSameBits) {
  const Embedding embedding = with_runs({200, 3, 61, 1});
  EXPECT_EQ(embedding.computed(false), embedding.computed(true));
}

}  // namespace
}  // namespace causeway::intra::cuda
