#include "diloco/pacing/egress_meter.h"

#include <gtest/gtest.h>

#include "diloco/pacing/k_policy.h"

namespace causeway::diloco {
namespace {

using Action = EgressBudget::Action;
using Period = Spending::Period;

double unix_s(std::chrono::year_month_day date, double hour = 0) {
  return std::chrono::duration<double>(std::chrono::sys_days(date).time_since_epoch()).count() +
         3600 * hour;
}

using namespace std::chrono_literals;
constexpr auto kLeapDay = 2028y / 2 / 29;

// A run of 10,000 steps whose rounds are decided when and at the cost that they are told.
class MeteredRun {
 public:
  explicit MeteredRun(const EgressBudget& budget) : meter(budget, {.steps = 10'000, .k = 10}) {}

  EgressMeter meter;
  double step_s = 0;  // that is measured from now on; 0: nothing is

  void round(double at_s, double cost, std::uint32_t steps = 10) {
    spent_ += cost;
    CommitRecord record{.run_id = {}, .round = round_, .participants = {}, .next_k = steps};
    record.decided_unix_s = at_s;
    record.egress = {{"east", 0.75 * spent_}, {"west", 0.25 * spent_}};
    if (step_s > 0) record.measured = {.step_s = step_s, .overhead_s = 1, .exchange_s = 1};
    meter.add(record, 10 * round_++, steps);
  }
  // One every 100 s.
  void rounds(double from_s, int count, double cost) {
    for (int i = 0; i < count; ++i) round(from_s + 100 * i, cost);
  }

 private:
  Round round_ = 0;
  double spent_ = 0;
};

TEST(EgressMeter, KnowsNothingBeforeTheSecondRecord) {
  MeteredRun run({.total = 100, .action = Action::stretch_k});
  run.round(unix_s(kLeapDay), 1);
  EXPECT_TRUE(run.meter.forecasts(10).empty());
  EXPECT_FALSE(run.meter.need());
  EXPECT_FALSE(run.meter.at_end(10));
  run.round(unix_s(kLeapDay) + 100, 1);
  ASSERT_EQ(run.meter.forecasts(10).size(), 1);
  // 2 are paid, 2 rounds are under way, and 10,000 steps less 30 are 997 more.
  EXPECT_DOUBLE_EQ(run.meter.forecasts(10).front().at_end, 2 + 2 + 997);
}

TEST(EgressMeter, DaysAndMonthsEndWhereTheCalendarSays) {
  MeteredRun run({.per_day = 50, .per_month = 500});
  run.rounds(unix_s(kLeapDay, 12), 5, 1);
  const auto forecasts = run.meter.forecasts(10);
  ASSERT_EQ(forecasts.size(), 2);
  EXPECT_EQ(forecasts[0].spending.period, Period::day);
  EXPECT_EQ(forecasts[0].spending.until_unix_s, unix_s(2028y / 3 / 1));
  EXPECT_EQ(forecasts[1].spending.until_unix_s, unix_s(2028y / 3 / 1));
  EXPECT_EQ(end_of(forecasts[1].spending), "2028-03-01 00:00 UTC");
  EXPECT_EQ(forecasts[0].spending.spent, 5);
  // Another day and month: what was paid up to the record before is theirs.
  run.round(unix_s(2028y / 3 / 1) + 1, 2);
  const auto later = run.meter.forecasts(10);
  EXPECT_EQ(later[0].spending.spent, 2);
  EXPECT_EQ(later[1].spending.spent, 2);
  EXPECT_EQ(later[1].spending.until_unix_s, unix_s(2028y / 4 / 1));
  EXPECT_EQ(run.meter.spent(), 7);
}

TEST(EgressMeter, AClockThatIsSetBackGivesNoNewMoney) {
  MeteredRun run({.per_day = 50});
  const double midnight = unix_s(2028y / 3 / 1);
  run.rounds(midnight - 500, 5, 1);
  run.rounds(midnight + 100, 5, 1);   // 5 of the new day
  run.rounds(midnight - 1000, 5, 1);  // another leader's clock
  EXPECT_EQ(run.meter.forecasts(10).front().spending.spent, 10);
  run.rounds(midnight + 500, 1, 1);
  EXPECT_EQ(run.meter.spent(), 16);
}

TEST(EgressMeter, ADayThatComesAgainGoesOnWithWhatIsLeftOfItsMoney) {
  MeteredRun run({.per_day = 50, .per_month = 500});
  const double midnight = unix_s(2028y / 3 / 1);
  run.rounds(midnight + 100, 5, 1);
  for (int i = 1; i <= 3; ++i) {
    run.round(midnight - 1000, 1);  // a leader whose clock is behind
    run.round(midnight + 600 + i, 1);
    for (const EgressForecast& forecast : run.meter.forecasts(10))
      EXPECT_EQ(forecast.spending.spent, 5 + 2 * i);
  }
  run.round(midnight + 86'400, 1);
  const auto next_day = run.meter.forecasts(10);
  EXPECT_EQ(next_day[0].spending.spent, 1);
  EXPECT_EQ(next_day[1].spending.spent, 12);
}

TEST(EgressMeter, AnOpenRoundEndsInADayWhoseMoneyWasSpentBefore) {
  MeteredRun run({.per_day = 20, .action = Action::pause});
  const double midnight = unix_s(2028y / 3 / 1);
  run.rounds(midnight - 1000, 5, 0.1);
  run.rounds(midnight + 100, 18, 1);
  run.rounds(midnight - 110, 2, 1);  // a clock that was set back shows 100 s less than the end
  const auto need = run.meter.need();
  ASSERT_TRUE(need);
  EXPECT_TRUE(need->pauses);
  EXPECT_EQ(need->because.until_unix_s, midnight + 86'400);
}

TEST(EgressMeter, AClockThatWasAheadOnceCostsOneDaysMoney) {
  MeteredRun run({.per_day = 50});
  const auto spent = [&run] { return run.meter.forecasts(10).at(0).spending.spent; };
  run.rounds(unix_s(2028y / 3 / 1), 5, 1);
  run.round(unix_s(2031y / 3 / 1), 1);
  run.round(unix_s(2028y / 3 / 2), 1);
  EXPECT_EQ(spent(), 2);
  run.round(unix_s(2028y / 3 / 3), 1);
  EXPECT_EQ(spent(), 1);
}

TEST(EgressMeter, WhatRoundsCostAndTakeStaysKnownWhenAClockIsSetBack) {
  MeteredRun run({.total = 5000});
  run.rounds(unix_s(kLeapDay, 12), 5, 1);
  const double before = run.meter.at_end(10).value();
  run.round(unix_s(kLeapDay), 1);
  ASSERT_TRUE(run.meter.at_end(10));
  EXPECT_DOUBLE_EQ(*run.meter.at_end(10), before);
}

// Of a run with 9,790 steps left and money for 860 rounds in its month.
void expect_a_k_of_12(const EgressMeter& meter) {
  const auto need = meter.need();
  ASSERT_TRUE(need);
  EXPECT_EQ(need->k, 12);
  EXPECT_FALSE(need->pauses);
  // 20 are paid, and 979 rounds of 10 steps are left in two weeks and more.
  EXPECT_DOUBLE_EQ(meter.forecasts(10).at(0).at_end, 20 + 2 + 979);
}

TEST(EgressMeter, AClockThatJumpsAheadSaysNothingOfHowLongRoundsTake) {
  for (const double step_s : {0.0, 8.0}) {
    MeteredRun run({.per_month = 900, .action = Action::stretch_k});
    run.step_s = step_s;
    const double begin = unix_s(2028y / 3 / 10);
    run.rounds(begin, 10, 1);
    run.rounds(begin + 86'400 + 1000, 10, 1);  // a leader's clock is corrected
    expect_a_k_of_12(run.meter);
  }
}

TEST(EgressMeter, NorDoesOneThatWasAheadOnce) {
  for (const double step_s : {0.0, 8.0}) {
    MeteredRun run({.per_month = 900, .action = Action::stretch_k});
    run.step_s = step_s;
    const double begin = unix_s(2028y / 3 / 10);
    run.rounds(begin, 10, 1);
    run.round(begin + 86'400 + 1000, 1);
    run.rounds(begin + 1100, 9, 1);
    expect_a_k_of_12(run.meter);
  }
}

TEST(EgressMeter, TheSecondOfTwoRoundsTellsThatAClockJumpedInTheFirst) {
  MeteredRun run({.per_month = 900});
  const double begin = unix_s(2028y / 3 / 31);
  run.round(begin, 1);
  run.rounds(begin + 43'200, 2, 1);
  // Half a day less 200 s is left after the open round; a step of 10 s is a round.
  EXPECT_DOUBLE_EQ(run.meter.forecasts(1).at(0).at_end, 3 + 2 + 4300);
}

// It counts with what it took beyond its steps.
TEST(EgressMeter, APauseIsNoJumpOfAClock) {
  MeteredRun run({.per_month = 900});
  run.step_s = 8;
  const double begin = unix_s(2028y / 3 / 30, 12);
  run.rounds(begin, 5, 1);
  run.round(begin + 10'400, 1, 1000);
  // Beyond its steps a round took (4 * 20 + 2,000) / 5 = 416 s. The open one has 1,000 steps too;
  // of 129,600 s 110,784 are left after it, and each step is a round.
  EXPECT_DOUBLE_EQ(run.meter.forecasts(1).at(0).at_end, 6 + 2 + 262);
}

TEST(EgressMeter, ARunsMoneyIsSpreadOverTheRoundsThatAreLeft) {
  MeteredRun run({.total = 105, .action = Action::stretch_k});
  run.rounds(unix_s(kLeapDay), 5, 1);
  const auto need = run.meter.need();
  ASSERT_TRUE(need);
  EXPECT_FALSE(need->pauses);
  // Of 102.9 5 are spent and 2 are under way: 95 rounds for 9,940 steps.
  EXPECT_EQ(need->k, 105);
  EXPECT_EQ(need->because.period, Period::run);
}

TEST(EgressMeter, WithoutMoneyTheRoundLastsUntilThereIsSome) {
  MeteredRun run({.per_day = 20, .action = Action::pause});
  run.rounds(unix_s(kLeapDay, 12), 10, 1);
  EXPECT_FALSE(run.meter.need());
  run.rounds(unix_s(kLeapDay, 12) + 1000, 8, 1);
  const auto need = run.meter.need();
  ASSERT_TRUE(need);
  EXPECT_TRUE(need->pauses);
  // 100 s are 10 steps: from 12:30 to midnight, and a hundredth more.
  EXPECT_NEAR(need->k, 1.01 * (11.5 * 3600) / 10, 10);
}

TEST(EgressMeter, WhatCostsNothingNeedsNothing) {
  MeteredRun run({.per_day = 20, .action = Action::stretch_k});
  run.rounds(unix_s(kLeapDay), 10, 0);
  EXPECT_FALSE(run.meter.need());
}

TEST(EgressMeter, SaysWhatAPersonMustKnow) {
  const Spending spending{
      .period = Period::day, .limit = 10, .spent = 7.1, .round_cost = 0.0123, .until_unix_s = 0};
  EXPECT_EQ(to_string(spending), "egress cost 7.10 of the 10.00 a day, and a round costs 0.0123");
  KDecision decision{.verdict = KDecision::Verdict::paused, .from = 30, .k = 900};
  decision.spending = spending;
  decision.spending->until_unix_s = unix_s(kLeapDay);
  EXPECT_EQ(to_string(decision),
            "K 30 -> 900: egress cost 7.10 of the 10.00 a day, and a round costs 0.0123; the "
            "regions train alone until about 2028-02-29 00:00 UTC");
}

TEST(OwnEgress, GoesOnFromWhatIsKnownAndCountsNothingTwice) {
  OwnEgress egress(10);
  EXPECT_EQ(egress.total(2, 0), 12);
  EXPECT_EQ(egress.total(3, 12), 13);  // the records know less
  OwnEgress killed(10);                // what it wrote was older than what it had said
  EXPECT_EQ(killed.total(0, 13), 13);
  EXPECT_EQ(killed.total(1, 13), 14);
  OwnEgress lost_its_disk;
  EXPECT_EQ(lost_its_disk.total(0.5, 14), 14);
  EXPECT_EQ(lost_its_disk.total(1.5, 14), 15);
}

TEST(EgressPrices, AreOfAPairOrOfAllTheOthers) {
  const EgressPrices prices{.per_gb = {{"eu", 0.02}}, .otherwise = 0.09, .given = true};
  EXPECT_DOUBLE_EQ(prices.of("eu", 5'000'000'000), 0.1);
  EXPECT_DOUBLE_EQ(prices.of("asia", 1'000'000'000), 0.09);
}

// ---- K ----

CommitRecord decided(const KPolicy& policy, Round round, double cost) {
  CommitRecord record{.run_id = {}, .round = round, .participants = {}, .next_k = policy.k()};
  record.k_decision = policy.next();
  record.decided_unix_s = unix_s(kLeapDay) + 100.0 * static_cast<double>(round);
  record.measured = {.step_s = 10, .overhead_s = 1, .exchange_s = 1};
  record.egress = {{"east", cost}};
  return record;
}

TEST(KPolicyBudget, GoesBeforeEverythingElseAndGivesBackTheKThatWasThere) {
  KPolicyOptions options;
  options.k_min = 5;
  options.k_max = 80;
  options.refit_rounds = 5;
  options.budget = {.per_day = 20, .action = Action::stretch_k};
  KPolicy policy(options, {.steps = 1'000'000, .k = 10});
  Round round = 0;
  std::uint64_t step = 0;
  const auto next = [&](double cost) {
    const std::uint32_t k = policy.k();
    policy.add(decided(policy, round++, cost), step, k);
    step += k;
  };
  for (int i = 0; i < 5; ++i) next(i + 1);
  ASSERT_GT(policy.k(), 80) << "dear rounds";
  const std::uint32_t stretched = policy.k();
  for (int i = 0; i < 20; ++i) {
    next(5);  // no round costs anything any more, but for the mean
    if (!policy.next()) continue;
    EXPECT_GE(policy.next()->verdict, KDecision::Verdict::stretched);
  }
  for (int i = 0; i < 40; ++i) next(5);
  EXPECT_LE(policy.k(), 80);
  EXPECT_LT(policy.k(), stretched);
}

TEST(KPolicyBudget, SaysThatItPausesUntilThereIsNewMoney) {
  KPolicyOptions options;
  options.budget = {.per_day = 20, .action = Action::pause};
  KPolicy policy(options, {.steps = 1'000'000, .k = 10});
  Round round = 0;
  std::uint64_t step = 0;
  const auto next = [&](double cost, double later_s) {
    const std::uint32_t k = policy.k();
    CommitRecord record = decided(policy, round++, cost);
    record.decided_unix_s += later_s;
    policy.add(record, step, k);
    step += k;
  };
  for (int i = 0; i < 30 && !policy.pauses(); ++i) {
    EXPECT_EQ(policy.k(), 10U);
    next(i + 1, 0);
  }
  ASSERT_TRUE(policy.pauses());
  EXPECT_GT(policy.k(), 100U);
  for (int i = 0; i < 3 && policy.pauses(); ++i) next(21, 86'400);  // the day after
  EXPECT_FALSE(policy.pauses());
  EXPECT_EQ(policy.k(), 10U);
}

}  // namespace
}  // namespace causeway::diloco
