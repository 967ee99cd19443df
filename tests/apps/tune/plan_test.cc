// Recorded runs under other choices.
#include "apps/run/tune/plan.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/apps/tune/tune_fixture.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int kTokensPerStep = 8 * 8;  // the configuration's batch and context

std::string recorded_rounds(double compute_s, double round_s, int rounds, int steps = 10) {
  std::string lines;
  for (int i = 0; i < rounds; ++i) {
    lines += nlohmann::json{{"round", i},
                            {"participants", {"us", "eu"}},
                            {"steps", steps},
                            {"tokens", kTokensPerStep * steps * (i + 1)},
                            {"compute_s", compute_s * (i + 1)},
                            {"time_unix_s", 1000 + round_s * (i + 1)}}
                 .dump() +
             "\n";
  }
  return lines;
}

TEST_F(TuneTest, ARecordedRunIsReplayedUnderOtherLinks) {
  const auto run = recorded(recorded_rounds(0.5, 0.9, 12));
  write("run/regions/eu/events.jsonl", recorded_rounds(0.4, 0.9, 12));
  const Recording recording = read_recording(run, config());
  EXPECT_NEAR(recording.step_s.at("us"), 0.05, 1e-9);
  EXPECT_NEAR(recording.step_s.at("eu"), 0.04, 1e-9);
  EXPECT_NEAR(recording.round_s, 0.9, 1e-6);

  const Tuning same = planned(run);
  const auto& row = same.forecast.rows.front();
  EXPECT_EQ(row.k, 10U);
  EXPECT_NEAR(row.measured_round_s.value(), 0.9, 1e-6);
  EXPECT_NEAR(row.round_s, 0.9, 0.03);
  EXPECT_EQ(same.confidence, "low") << "a recording vouches for nothing but itself";
  EXPECT_THAT(same.reasons, testing::Contains(HasSubstr("no other choice was measured")));
  const Tuning far = planned(run, write("far.toml",
                                        "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 600\n"
                                        "rate_mbit_s = 10\n"));
  EXPECT_GT(far.forecast.rows.front().round_s, row.round_s + 0.5);
  EXPECT_FALSE(far.forecast.rows.front().measured_round_s);
}

TEST_F(TuneTest, ARecordingWithoutEventsIsNotSaidToHaveTooFewRounds) {
  const auto run = recorded(recorded_rounds(0.5, 0.9, 12));
  std::filesystem::remove(run / "regions/eu/events.jsonl");
  EXPECT_THAT([&] { planned(run); },
              testing::ThrowsMessage<ConfigError>(testing::AllOf(
                  HasSubstr("regions/eu/events.jsonl: is not there"), Not(HasSubstr("too few")))));
}

TEST_F(TuneTest, APlanCountsThePricesOfTheRunsConfiguration) {
  const auto prices = write("prices.toml", "default_per_gb = 2\n");
  const auto run =
      recorded(recorded_rounds(0.5, 0.9, 12), "[links]\nprices = '" + prices.string() + "'\n");
  EXPECT_GT(planned(run).forecast.rows.front().cost_per_round, 0);
}

TEST_F(TuneTest, APlanNamesAPlaceThatCannotBeWrittenTo) {
  TuneOptions asked;
  asked.cache = write("text", "text") / "cache";
  const auto run = recorded(recorded_rounds(0.5, 0.9, 12));
  EXPECT_THAT(
      [&] { plan(asked, run, [](const std::string&) {}); },
      testing::ThrowsMessage<ConfigError>(HasSubstr("name another directory with --cache")));
}

TEST_F(TuneTest, APlanSaysWhatToSetAndWhereItsStepTimesComeFrom) {
  const auto run = recorded(recorded_rounds(0.5, 0.9, 12));
  const Tuning longer = planned(run);
  ASSERT_EQ(longer.recommended().k, 20U);
  EXPECT_THAT(longer.settings, testing::ElementsAre("train.k = 20"));
  const std::string text = tuning_text(longer);
  EXPECT_THAT(text, HasSubstr("To set in the configuration:\n    train.k = 20\n"));
  EXPECT_THAT(text, HasSubstr("that of the recorded run, whose steps were timed waits"));
  EXPECT_THAT(text, Not(HasSubstr("was given, not measured")));
  EXPECT_THAT(text, Not(HasSubstr("times as long as one with")));
  EXPECT_THAT(text, HasSubstr("`causeway tune --calibrate SECONDS`")) << "plan has no such flag";
  const auto json = nlohmann::json::parse(tuning_json(longer));
  EXPECT_EQ(json.at("settings"), nlohmann::json({"train.k = 20"}));
  EXPECT_EQ(json.at("recommended").at("inner_optimizer"), "adamw");

  const Tuning shorter = planned(run, {}, 1);
  ASSERT_EQ(shorter.recommended().k, 10U);
  EXPECT_THAT(tuning_text(shorter), HasSubstr("The configuration says all this already"));
}

// Rounds of one fragment have K / P steps.
TEST_F(TuneTest, ARecordedRunInFragmentsIsTakenAsOne) {
  const auto run = recorded(recorded_rounds(0.25, 0.5, 12, 5),
                            "[sync]\nvariant = 'streaming'\nfragments = 2\noverlap_steps = 2\n");
  const Recording recording = read_recording(run, load_config(run / "config.toml", {}));
  EXPECT_EQ(recording.k, 10U);
  EXPECT_EQ(recording.rounds, 6U);
  EXPECT_NEAR(recording.step_s.at("us"), 0.05, 1e-9);
  EXPECT_NEAR(recording.round_s, 1.0, 1e-6);

  const Tuning same = planned(run);
  const auto row = std::ranges::find_if(
      same.forecast.rows, [](const auto& each) { return each.measured_round_s.has_value(); });
  ASSERT_NE(row, same.forecast.rows.end());
  EXPECT_EQ(row->overlap, (diloco::tuner::Overlap{diloco::tuner::Variant::streaming, 2, 2}));
  EXPECT_NEAR(row->round_s, 1.0, 0.02);
}

TEST_F(TuneTest, FragmentsThatOverlapNothingArePlannedFromToo) {
  const Tuning tuning =
      planned(recorded(recorded_rounds(0.25, 0.6, 12, 5),
                       "[sync]\nvariant = 'streaming'\nfragments = 2\noverlap_steps = 0\n"));
  const auto& row = tuning.forecast.rows.front();
  EXPECT_EQ(row.overlap, (diloco::tuner::Overlap{diloco::tuner::Variant::streaming, 2, 0}));
  EXPECT_NEAR(row.measured_round_s.value(), 1.2, 1e-6);
  EXPECT_NEAR(row.round_s, 1.2, 0.02);
}

TEST_F(TuneTest, SaysWhenARecordingWasQuickerThanItsRehearsalCanBe) {
  EXPECT_THAT(planned(recorded(recorded_rounds(0.5, 0.51, 12))).warnings,
              testing::Contains(HasSubstr("quicker than any rehearsal of them")));
}

TEST_F(TuneTest, ARunWithoutAWanIsNotTakenForOneOverIts) {
  const auto run = recorded(recorded_rounds(0.5, 0.6, 12));
  write("run/summary.json", R"({"wan": "none"})");
  EXPECT_THROW(planned(run), ConfigError) << "its links were not measured";
  EXPECT_THAT(planned(run, write("far.toml", kLinks)).warnings,
              testing::Contains(HasSubstr("the plan leaves out")));
}

TEST_F(TuneTest, WhatARunKeptToMostlyIsItsK) {
  const std::string rounds = recorded_rounds(0.1, 0.2, 4, 2) + recorded_rounds(0.5, 0.9, 12);
  const Recording recording = read_recording(recorded(rounds), config());
  EXPECT_EQ(recording.k, 10U);
  EXPECT_NEAR(recording.round_s, 0.9, 1e-6);
}

TEST_F(TuneTest, ARunThatWasStartedByHandIsRefusedWithWhatToDo) {
  const auto by_hand = write("by-hand/us/events.jsonl", recorded_rounds(0.5, 0.9, 12));
  EXPECT_THAT([&] { planned(by_hand.parent_path().parent_path()); },
              testing::ThrowsMessage<ConfigError>(HasSubstr("tune CONFIG --links-run")));
}

TEST_F(TuneTest, ARecordingOfTooFewRoundsIsRefused) {
  write("run/regions/us/events.jsonl", recorded_rounds(0.5, 0.9, 2));
  EXPECT_THROW(read_recording(directory_.path() / "run", config()), ConfigError);
}

}  // namespace
}  // namespace causeway::run
