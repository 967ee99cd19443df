#include "apps/run/config/starter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/temporary.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::run {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Starter, OfAProgramIsAConfigurationThatLeavesTheModelToIt) {
  for (const StarterTrainer trainer : {StarterTrainer::pytorch, StarterTrainer::own}) {
    const Config config = load_text(starter_config(trainer, "a.toml", "a.wan.toml"));
    EXPECT_FALSE(config.built_in_trainer());
    EXPECT_EQ(config.regions.size(), 3U);
    EXPECT_EQ(config.wan, "a.wan.toml");
  }
  EXPECT_THAT(starter_config(StarterTrainer::pytorch, "a.toml", "b"),
              HasSubstr("causeway simulate a.toml --worker 'torchrun"));
}

TEST(Starter, OfTheBuiltInTrainerHasAModelAndData) {
  const Config config = load_text(starter_config(StarterTrainer::built_in, "a.toml", "b"));
  EXPECT_TRUE(config.built_in_trainer());
  EXPECT_EQ(config.train.steps % config.train.k, 0U);
}

TEST(Starter, ItsWanIsBetweenItsRegions) {
  const TemporaryDirectory directory;
  const auto wan = wan_sim::load_scenario(directory.write("wan.toml", std::string(starter_wan())));
  const Config config = load_text(starter_config(StarterTrainer::own, "a.toml", "b"));
  EXPECT_EQ(wan.regions, names_of(config));
}

TEST(Starter, TakesAnyNameThatCanStandInAFile) {
  const std::string odd = "my \"runs\"\\x.wan.toml";
  EXPECT_EQ(load_text(starter_config(StarterTrainer::own, "a.toml", odd)).wan, odd);
  EXPECT_THROW(starter_config(StarterTrainer::own, "a\nb.toml", odd), ConfigError);
}

}  // namespace
}  // namespace causeway::run
