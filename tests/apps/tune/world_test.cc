// Rehearsals of the real protocol over the virtual WAN.
#include "apps/run/tune/predict.h"

#include <gtest/gtest.h>

#include "diloco/rehearsal/rehearsal.h"

namespace causeway::run {
namespace {

using diloco::tuner::Overlap;
using diloco::tuner::RehearsalOptions;
using diloco::tuner::RehearsalResult;
using diloco::tuner::Variant;

wan_sim::Scenario links(const std::string& settings, const std::string& more = "") {
  return wan_sim::parse_scenario("regions = ['a', 'b', 'c']\n[defaults]\n" + settings + "\n" + more,
                                 "test.toml");
}

RehearsalOptions three(std::uint32_t k, Overlap overlap = {}) {
  RehearsalOptions options;
  for (const char* name : {"a", "b", "c"}) options.regions[name] = {.step_s = 0.1};
  options.founder = "a";
  options.k = k;
  options.overlap = overlap;
  options.payload_bytes = 4'000'000;
  options.limit_s = 36'000;
  options.protocol.staleness_max = 2;
  options.protocol.grace_min = std::chrono::seconds{5};
  options.protocol.grace_max = std::chrono::seconds{600};
  return options;
}

RehearsalResult rehearse(const RehearsalOptions& options, const std::string& settings) {
  const auto world = make_virtual_world(links(settings));
  return diloco::tuner::rehearse(*world, options);
}

constexpr char kHundredMegabit[] = "rtt_ms = 100\nrate_mbit_s = 100";

TEST(Rehearsal, ASynchronousRoundIsComputeTransferAndAgreement) {
  const RehearsalResult result = rehearse(three(100), kHundredMegabit);
  ASSERT_TRUE(result.complete);
  // 10 s of steps, 0.32 s for 4 MB, and four half round trips: payload, report, record, answer.
  EXPECT_NEAR(result.round_s, 10 + 0.32 + 0.2, 0.01);
  EXPECT_NEAR(result.utilisation, 10 / result.round_s, 0.002);
  EXPECT_DOUBLE_EQ(result.participation, 1);
  // Two copies of every payload.
  EXPECT_NEAR(result.sent_bytes / (3 * 2 * 4e6), 1, 0.02);
}

// No region of it is rehearsed, as it carries no payloads.
TEST(Rehearsal, KnowsThatWithAWitnessOneOfTwoRegionsWillDo) {
  Config config;
  for (const char* name : {"a", "b"}) config.regions.emplace_back().name = name;
  EXPECT_EQ(rehearsed_protocol(config).contributions_min, 0U);
  config.witness.name = "v";
  EXPECT_EQ(rehearsed_protocol(config).contributions_min, 1U);
  config.sync.rules.contributions_min = 2;
  EXPECT_EQ(rehearsed_protocol(config).contributions_min, 2U);
}

TEST(Rehearsal, AnExchangeThatIsAppliedOneRoundLateIsHidden) {
  for (const Variant variant : {Variant::eager, Variant::delayed}) {
    const RehearsalResult result = rehearse(three(50, {variant}), kHundredMegabit);
    ASSERT_TRUE(result.complete);
    EXPECT_NEAR(result.round_s, 5, 0.01);
    EXPECT_GT(result.utilisation, 0.998);
  }
}

TEST(Rehearsal, StreamingHidesTauStepsOfEachFragment) {
  const double plain = rehearse(three(100, {Variant::streaming, 4, 0}), kHundredMegabit).round_s;
  const double one = rehearse(three(100, {Variant::streaming, 4, 1}), kHundredMegabit).round_s;
  const double five = rehearse(three(100, {Variant::streaming, 4, 5}), kHundredMegabit).round_s;
  // A quarter of the payload takes 0.08 s, and there are two round trips.
  EXPECT_NEAR(plain, 10 + 4 * 0.28, 0.02);
  EXPECT_NEAR(plain - one, 4 * 0.1, 0.02);
  EXPECT_NEAR(five, 10, 0.01);
}

TEST(Rehearsal, TheSlowestRegionSetsTheRound) {
  RehearsalOptions options = three(100);
  options.regions["c"].step_s = 0.12;
  options.protocol.grace_min = std::chrono::seconds{60};
  const RehearsalResult result = rehearse(options, kHundredMegabit);
  ASSERT_TRUE(result.complete);
  EXPECT_NEAR(result.round_s, 12.45, 0.1);
  EXPECT_NEAR(result.utilisation, (10 + 10 + 12) / 3.0 / result.round_s, 0.01);
}

TEST(Rehearsal, EncodingAndApplyingAreWaiting) {
  RehearsalOptions options = three(100);
  for (auto& [name, pace] : options.regions) pace.encode_s = pace.apply_s = 0.5;
  const double with = rehearse(options, kHundredMegabit).round_s;
  EXPECT_NEAR(with - rehearse(three(100), kHundredMegabit).round_s, 1, 0.01);
}

TEST(Rehearsal, StepsThatVaryMakeRegionsWaitForEachOther) {
  RehearsalOptions options = three(100);
  for (auto& [name, pace] : options.regions) pace.step_deviation_s = 0.05;
  options.rounds = 40;
  const RehearsalResult result = rehearse(options, kHundredMegabit);
  // The largest of three normal deviates is 0.846 deviations above the mean.
  EXPECT_NEAR(result.round_s, 10.44 + 0.846 * 0.5, 0.2);
  EXPECT_GT(result.round_s_p95, result.round_s);
}

TEST(Rehearsal, TheSameOptionsGiveTheSameResult) {
  RehearsalOptions options = three(30);
  for (auto& [name, pace] : options.regions) pace.step_deviation_s = 0.02;
  const double first = rehearse(options, kHundredMegabit).round_s;
  EXPECT_EQ(first, rehearse(options, kHundredMegabit).round_s);
  options.seed = 2;
  EXPECT_NE(first, rehearse(options, kHundredMegabit).round_s);
}

TEST(Rehearsal, CongestionControlIsHonoured) {
  const std::string lossy = "rtt_ms = 100\nrate_mbit_s = 100\nloss = 0.001\ncongestion = 'reno'";
  RehearsalOptions options = three(100);
  options.payload_bytes = 1'000'000;
  options.rounds = 4;
  const double clean = rehearse(options, kHundredMegabit).round_s;
  EXPECT_GT(rehearse(options, lossy).round_s, clean + 0.2);
}

TEST(Rehearsal, WhatNeverGetsThroughIsIncomplete) {
  RehearsalOptions options = three(10);
  options.limit_s = 120;
  options.payload_bytes = 4'000'000'000;
  EXPECT_FALSE(rehearse(options, "rtt_ms = 100\nrate_mbit_s = 1").complete);
}

}  // namespace
}  // namespace causeway::run
