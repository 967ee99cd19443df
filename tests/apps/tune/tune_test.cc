// What a tuning tries, refuses and says.
#include "apps/run/tune/tune.h"

#include <fcntl.h>

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run/tune/grid.h"
#include "inter/base/file.h"
#include "tests/apps/tune/tune_fixture.h"

namespace causeway::run {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

TEST_F(TuneTest, RehearsesEveryChoiceAndRecommendsOne) {
  const Tuning tuning = tuned(options());
  EXPECT_EQ(tuning.forecast.rows.size(), 3U * 3 * 3);  // K, codecs, variants
  ASSERT_TRUE(tuning.recommendation);
  for (const auto& row : tuning.forecast.rows) {
    EXPECT_TRUE(row.complete);
    EXPECT_GE(row.round_s, row.k * 0.05);
  }
  EXPECT_EQ(tuning.confidence, "low");
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("published prices of K")));
}

TEST_F(TuneTest, PrintsTheKeysThatScriptsRelyOn) {
  const auto json = nlohmann::json::parse(tuning_json(tuned(options())));
  EXPECT_TRUE(json.at("recommended_k").is_number_unsigned());
  EXPECT_EQ(json.at("interval").size(), 2U);
  EXPECT_TRUE(json.at("confidence").is_string());
  for (const auto& row : json.at("rows")) {
    for (const char* key : {"k", "codec", "variant", "predicted_round_s", "measured_round_s",
                            "predicted_utilisation", "predicted_time_to_loss_s"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    EXPECT_TRUE(row.at("measured_round_s").is_null());
  }
}

TEST_F(TuneTest, ThePageNeedsNothingFromOutside) {
  const std::string page = tuning_html(tuned(options()));
  EXPECT_THAT(page, HasSubstr("<svg"));
  for (const char* outside : {"http:", "https:", "src=", "<link", "@import", "<script"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST_F(TuneTest, ASlowRegionIsGivenByName) {
  TuneOptions slow = options();
  slow.region_step_s = {"eu=100"};
  const double twice = tuned(slow).forecast.rows.back().round_s;
  EXPECT_GT(twice, 1.5 * tuned(options()).forecast.rows.back().round_s);
  slow.region_step_s = {"asia=100"};
  EXPECT_THAT([&] { tuned(slow); },
              ThrowsMessage<ConfigError>(HasSubstr("the run has no such region; it has us, eu")));
  slow.region_step_s = {"eu=100", "eu=200"};
  EXPECT_THAT([&] { tuned(slow); }, ThrowsMessage<ConfigError>(HasSubstr("name it once")));
}

// Each would remove the other's runs.
TEST_F(TuneTest, TwoDoNotMeasureInOneDirectory) {
  TuneOptions asked = options();
  asked.measure_s = 1;
  std::filesystem::create_directories(asked.cache / "work");
  inter::File other(asked.cache / "work" / "lock", O_RDWR | O_CREAT);
  ASSERT_TRUE(other.lock());
  EXPECT_THAT([&] { tuned(asked); },
              ThrowsMessage<ConfigError>(HasSubstr("another `causeway tune` works there")));
  asked.measure_s = 0;
  EXPECT_NO_THROW(tuned(asked)) << "it starts no programs";
}

// A second is not enough for any row: nothing new is there afterwards.
TEST_F(TuneTest, WhatAKilledOneMeasuredIsRemoved) {
  TuneOptions asked = options();
  asked.measure_s = 1;
  const auto left = asked.cache / "work" / "measured" / "row-7";
  std::filesystem::create_directories(left);
  tuned(asked);
  EXPECT_FALSE(std::filesystem::exists(left));
}

TEST_F(TuneTest, WhatIsNamedTwiceIsTriedOnce) {
  TuneOptions once = options(), twice = options();
  once.codecs = {"dense:int8"};
  twice.codecs = {"dense:int8", "dense:int8"};
  once.grid.variants = {diloco::tuner::Variant::eager};
  twice.grid.variants = {diloco::tuner::Variant::eager, diloco::tuner::Variant::eager};
  EXPECT_EQ(tuned(twice).forecast.rows.size(), tuned(once).forecast.rows.size());
  const Config config = load_config(twice.config, {}, Trainer::built_in);
  EXPECT_EQ(overlaps_of(twice.grid, config).size(), 1U) << "it would be calibrated twice";
}

TEST_F(TuneTest, ARegionThatIsNoneIsRefusedBeforeAnythingIsMeasured) {
  TuneOptions asked = options();
  asked.region_step_s = {"mars=5"};
  std::string notes;
  EXPECT_THROW(tune(asked, [&notes](const std::string& note) { notes += note; }), ConfigError);
  EXPECT_EQ(notes, "");
}

TEST_F(TuneTest, APlaceThatCannotBeWrittenToIsNamedBeforeAnythingIsMeasured) {
  TuneOptions asked = options();
  asked.cache = write("text", "text") / "cache";
  std::string notes;
  EXPECT_THAT([&] { tune(asked, [&notes](const std::string& note) { notes += note; }); },
              ThrowsMessage<ConfigError>(HasSubstr("name another directory with --cache")));
  EXPECT_EQ(notes, "");
}

TEST_F(TuneTest, WarnsOfWhatStepsApartCostAdamW) {
  TuneOptions far = options();
  far.grid.ks = {30};
  const auto warns = Contains(HasSubstr("With Muon they ended lower"));
  EXPECT_THAT(tuned(far).warnings, warns);
  far.config = write("muon.toml", std::string(kConfig) + "[inner]\noptimizer = \"muon\"\n");
  EXPECT_THAT(tuned(far).warnings, Not(warns));
  TuneOptions near = options();
  near.grid.ks = {10};
  EXPECT_THAT(tuned(near).warnings, Not(warns));
}

TEST_F(TuneTest, WarnsOfAProbeThatSomethingElseDisturbed) {
  Tuning tuning = tuned(options());
  tuning.probe.steps = 10;
  tuning.probe.step_deviation_s = 0.3 * tuning.probe.step_s;
  tuning.warnings.clear();
  judge(tuning);
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("50.0 +- 15.0 ms: something else uses")));
  tuning.probe.step_deviation_s = 0.1 * tuning.probe.step_s;
  tuning.warnings.clear();
  judge(tuning);
  EXPECT_THAT(tuning.warnings, Not(Contains(HasSubstr("something else uses"))));
}

TEST_F(TuneTest, SaysByHowMuchTheRunnerUpIsWorse) {
  EXPECT_THAT(tuned(options()).reasons, Contains(HasSubstr("the runner-up, K = ")));
}

TEST_F(TuneTest, SaysWhenSynchronisingEveryStepIsQuicker) {
  TuneOptions asked = options();
  asked.links = write("near.toml",
                      "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 0.1\nrate_mbit_s = 100000\n");
  EXPECT_THAT(tuned(asked).warnings, Contains(HasSubstr("is predicted to be quicker")));
  EXPECT_THAT(tuned(options()).warnings, Not(Contains(HasSubstr("is predicted to be quicker"))));
}

TEST_F(TuneTest, SaysWhichStepsGoWithTheRecommendedK) {
  TuneOptions asked = options();
  asked.grid.ks = {70};
  EXPECT_THAT(tuned(asked).warnings, Contains(HasSubstr("set it to 1260")));
}

TEST_F(TuneTest, WhatCannotBeMeasuredIsAWarningAndLosesNothing) {
  TuneOptions asked = options();
  asked.measure_s = 1;
  EXPECT_THAT(tuned(asked).warnings, Contains(HasSubstr("more than --measure leaves")));
  asked.measure_all = true;
  asked.program = "/bin/false";
  const Tuning tuning = tuned(asked);
  EXPECT_TRUE(tuning.recommendation);
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("was not measured: a run")));
}

TEST_F(TuneTest, OffersOnlyWhatCanBeConfigured) {
  TuneOptions asked = options();
  asked.grid.ks = {1, 3, 10, 15};
  asked.grid.variants = {diloco::tuner::Variant::streaming};
  asked.grid.fragments = 2;
  asked.grid.overlap_steps = 9;
  const Tuning tuning = tuned(asked);
  EXPECT_FALSE(tuning.forecast.rows.empty());
  for (const auto& row : tuning.forecast.rows) {
    EXPECT_NO_THROW(config({"train.k=" + std::to_string(row.k), "sync.variant=streaming",
                            "sync.fragments=" + std::to_string(row.overlap.fragments),
                            "sync.overlap_steps=" + std::to_string(row.overlap.overlap_steps)}));
  }
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("left out for K = 1, 3, 15")));
  asked.grid.ks = {3};
  EXPECT_THROW(tuned(asked), ConfigError);
}

TEST_F(TuneTest, ARoundThatWouldBeLongerThanTheRunIsNotRehearsed) {
  TuneOptions asked = options();
  asked.grid.ks = {10, 1'000'000};
  const Tuning tuning = tuned(asked);
  for (const auto& row : tuning.forecast.rows) EXPECT_EQ(row.k, 10U);
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("K = 1000000 is left out")));
  asked.grid.ks = {1201};
  EXPECT_THAT([&] { tuned(asked); },
              ThrowsMessage<ConfigError>(HasSubstr("--k 1201: a round would be longer")));
}

TEST_F(TuneTest, ChosenValuesOfKFitTheRunAndTheFragments) {
  TuneOptions asked = options();
  asked.overrides = {"train.k=25", "train.steps=4800"};
  asked.grid.ks = {};
  const Tuning tuning = tuned(asked);
  for (const auto& row : tuning.forecast.rows) {
    EXPECT_EQ(4800 % row.k, 0U) << row.k;
    EXPECT_EQ(row.k % row.overlap.fragments, 0U);
  }
  const auto streams_near_25 = [](const auto& row) {
    return row.overlap.fragments == 2 && row.k == 24;
  };
  EXPECT_TRUE(std::ranges::any_of(tuning.forecast.rows, streams_near_25));
}

TEST(TuneGrid, HoldsKItsHalfAndItsDouble) {
  const auto ks = k_grid(30, 0.1, 1, 10'000);
  EXPECT_THAT(ks, testing::IsSupersetOf({15U, 30U, 60U}));
  EXPECT_GE(ks.size(), 7U);
  EXPECT_THAT(k_grid(1, 1, 0.001, 10'000), Contains(1U));
  EXPECT_EQ(k_grid(30, 0.1, 100, 60).back(), 60U) << "no more steps than the run has";
}

TEST(TuneGrid, TakesTheNearestKThatDivides) {
  EXPECT_EQ(usable_k(25, 1, 4800), 25U);
  EXPECT_EQ(usable_k(13, 1, 4800), 12U);
  EXPECT_EQ(usable_k(25, 2, 4800), 24U);
  EXPECT_EQ(usable_k(25, 2, 4801), 26U) << "of a prime number of steps, the fragments' multiple";
  EXPECT_EQ(usable_k(1, 3, 4800), 3U);
}

// Between us and asia all goes over a thin link, unless eu passes it on.
TEST_F(TuneTest, PayloadsMayTakeAnotherWay) {
  TuneOptions asked = options();
  asked.config = write("three.toml", kConfig + std::string("[[regions]]\nname = 'asia'\n"));
  asked.links = write("links3.toml",
                      "regions = ['us', 'eu', 'asia']\n[defaults]\nrtt_ms = 20\nrate_mbit_s = 10\n"
                      "[[link]]\na = 'us'\nb = 'asia'\nrtt_ms = 20\nrate_mbit_s = 0.02\n");
  asked.grid.ks = {10};
  asked.grid.variants = {diloco::tuner::Variant::synchronous};
  asked.grid.topologies = {std::nullopt, inter::Shape::direct, inter::Shape::relay};
  asked.codecs = {"dense:int8,block=128"};
  const Tuning tuning = tuned(asked);
  ASSERT_EQ(tuning.forecast.rows.size(), 3U);
  const double automatic_s = tuning.forecast.rows[0].round_s;
  const double direct_s = tuning.forecast.rows[1].round_s;
  EXPECT_LT(automatic_s, 0.8 * direct_s);
  EXPECT_LT(tuning.forecast.rows[2].round_s, 0.8 * direct_s);
  EXPECT_NE(tuning.recommended().topology, inter::Shape::direct);
}

TEST_F(TuneTest, WarnsOfWhatTheRehearsalLeavesOut) {
  TuneOptions asked = options();
  asked.overrides = {"sync.speed_adaptive_k=true"};
  EXPECT_THAT(tuned(asked).warnings, Contains(HasSubstr("speed_adaptive_k")));
}

}  // namespace
}  // namespace causeway::run
