#include "apps/run/learning/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/doctor/checks.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;
using ::testing::StartsWith;

Config load_small(const std::vector<std::string>& overrides) {
  return load_text(kSmallConfig, overrides);
}

TEST(Recipe, ItsOwnLeavesAConfigurationAsItIs) {
  const Config config = load_small({"outer.lr=0.123", "codec.matrix=dense:int8,block=128"});
  EXPECT_EQ(to_toml(with(config, recipe_of(config))), to_toml(config));
}

TEST(Recipe, MuonTakesLongerSteps) {
  const Config config = load_small({"inner.lr=0.002", "codec.matrix=dense:int8,block=128"});
  const Config muon = with(config, {"muon", config.codec.matrix});
  EXPECT_FLOAT_EQ(muon.inner.lr, 0.004F);
  EXPECT_EQ(recipe_of(muon), (Recipe{"muon", config.codec.matrix}));
  EXPECT_FLOAT_EQ(with(muon, recipe_of(config)).inner.lr, 0.002F);
}

TEST(Recipe, CodecsOfFewBitsKeepWhatTheyDrop) {
  const Config config = load_small({"codec.matrix=dense:int8,block=128", "codec.feedback=false"});
  EXPECT_FALSE(with(config, {"muon", "dense:int8,block=64"}).codec.feedback);
  EXPECT_TRUE(with(config, {"adamw", "dense:2bit"}).codec.feedback);
  EXPECT_TRUE(with(config, {"adamw", "topk:k=64,chunk=4096,value=2bit,index=rice"}).codec.feedback);
}

TEST(Recipe, SaysWhatToSet) {
  const Config config = load_small({"codec.matrix=dense:int8,block=128", "codec.feedback=false",
                                    "inner.lr=0.002", "outer.optimizer=nesterov"});
  const auto lines = settings_between(config, with(config, {"muon", "dense:2bit"}));
  EXPECT_THAT(lines, Contains("inner.optimizer = \"muon\""));
  EXPECT_THAT(lines, Contains("inner.lr = 0.004"));
  EXPECT_THAT(lines, Contains("codec.matrix = \"dense:2bit\""));
  EXPECT_THAT(lines, Contains("codec.feedback = true"));
  EXPECT_THAT(lines, Contains(StartsWith("outer.momentum = ")));
  EXPECT_THAT(settings_between(config, config), ElementsAre());
  const Config chosen = load_small({});
  EXPECT_THAT(settings_between(chosen, with(chosen, {"muon", "dense:2bit"})),
              Not(Contains(StartsWith("outer."))));
}

TEST(Recipe, MuonsShareFallsWithTheTokensOfAStep) {
  const auto share = [](const std::string& batch) {
    return muon_share(load_small({"inner.optimizer=muon", "train.batch=" + batch}));
  };
  EXPECT_EQ(muon_share(load_small({})), 0);
  EXPECT_GT(share("1"), share("64"));
  EXPECT_THAT(muon_concern(load_small({"inner.optimizer=muon", "train.batch=1"})),
              testing::HasSubstr("% of a step's arithmetic"));
  EXPECT_EQ(muon_concern(load_small({"inner.optimizer=muon", "train.batch=65536"})), "");
}

// Tune alone said it.
TEST(Concerns, NameWhatALargeKCostsASmallModelThatAdamWTrains) {
  const auto of = [](const std::string& k, const std::string& inner) {
    return concerns(load_small({"train.steps=600", "train.k=" + k, "inner.optimizer=" + inner}));
  };
  EXPECT_THAT(of("25", "adamw"),
              testing::ElementsAre(testing::HasSubstr("2 to 9 % higher with K of 25 to 100")));
  EXPECT_THAT(of("24", "adamw"), testing::IsEmpty());
  EXPECT_THAT(of("25", "muon"),
              testing::Not(testing::Contains(testing::HasSubstr("2 to 9 % higher"))));
  EXPECT_EQ(price_of_adamw(35'000'000, "adamw", 100), "") << "published prices begin there";
}

TEST(Concerns, AreWarningsOfTheDoctor) {
  const Findings findings = judge_settings(load_small({"train.steps=600", "train.k=30"}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].grade, Finding::Grade::warn);
  EXPECT_THAT(findings[0].text, testing::HasSubstr("a large K costs AdamW loss"));
}

}  // namespace
}  // namespace causeway::run
