#include "intra/published/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/intra/step/scripted_model.h"

namespace causeway::intra {
namespace {

// Probabilities 1/8, 5/8, 2/8 at temperature 1.
const std::array<float, 3> kLogits = {std::log(1.0F), std::log(5.0F), std::log(2.0F)};

TEST(SampleToken, DrawsEachTokenWithItsProbability) {
  std::array<int, 3> drawn{};
  for (int i = 0; i < 8000; ++i) ++drawn[sample_token(kLogits, 1.0F, 0, (i + 0.5) / 8000)];
  EXPECT_THAT(drawn, testing::ElementsAre(1000, 5000, 2000));
}

TEST(SampleToken, TakesTheLikeliestWhenCold) {
  for (const double chance : {0.0, 0.5, 0.999}) {
    EXPECT_EQ(sample_token(kLogits, 0.0F, 0, chance), 1);
    EXPECT_EQ(sample_token(kLogits, 1.0F, 1, chance), 1);
  }
}

TEST(SampleToken, DrawsOnlyFromTheLikeliestFew) {
  std::array<int, 3> drawn{};
  for (int i = 0; i < 700; ++i) ++drawn[sample_token(kLogits, 1.0F, 2, (i + 0.5) / 700)];
  EXPECT_THAT(drawn, testing::ElementsAre(0, 500, 200));
}

TEST(SampleToken, SurvivesLargeLogitsAndTheLargestChance) {
  const std::array<float, 2> large = {1000.0F, -1000.0F};
  EXPECT_EQ(sample_token(large, 1.0F, 0, std::nextafter(1.0, 0.0)), 0);
}

TEST(Generate, FollowsThePromptWithAtMostTheContext) {
  // Its next token is the length of what it was shown.
  ScriptedModel model({.vocabulary = 16, .context = 4});
  model.logits = [](std::span<const std::int32_t> shown) {
    std::vector<float> logits(16, 0.0F);
    logits[shown.size()] = 1;
    return logits;
  };
  const std::vector<std::int32_t> prompt = {9, 9};
  EXPECT_THAT(generate(model, {}, prompt, {.tokens = 5, .temperature = 0}),
              testing::ElementsAre(2, 3, 4, 4, 4));
}

TEST(Generate, IsReproducibleFromItsSeed) {
  ScriptedModel model({.vocabulary = 16, .context = 4});
  model.logits = [](std::span<const std::int32_t>) { return std::vector<float>(16, 0.0F); };
  const std::vector<std::int32_t> prompt = {1};
  const auto draw = [&](std::uint64_t seed) {
    return generate(model, {}, prompt, {.tokens = 40, .seed = seed});
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

}  // namespace
}  // namespace causeway::intra
