// A month of a run in virtual time, whose egress has a price and a limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "diloco/pacing/egress_meter.h"
#include "tests/diloco/cluster/cluster.h"

namespace causeway::diloco::testing {
namespace {

using Action = EgressBudget::Action;
using Verdict = KDecision::Verdict;
using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;

constexpr std::uint32_t kRoundsOfADay = 96;
constexpr std::uint32_t kK = 4;

// A payload has 2,500 bytes on average and goes to two regions: a round costs about one.
ClusterOptions options_of(const EgressBudget& budget, std::uint32_t days_long) {
  ClusterOptions options{.rounds = kRoundsOfADay * days_long, .push_loss = 0};
  options.k_policy.k_min = options.k_policy.k_max = kK;
  options.k_policy.budget = budget;
  options.compute_min = minutes{14};
  options.compute_max = minutes{15};
  options.grace_min = minutes{5};
  options.grace_max = hours{1};
  options.election = minutes{2};
  options.payload_bytes_min = 2'400;
  options.payload_bytes_max = 2'600;
  options.price = 1.0 / (3 * 2 * 2'500);
  constexpr std::chrono::sys_days begin = std::chrono::year{2026} / 3 / 1;
  options.unix_s_at_zero = std::chrono::duration<double>(begin.time_since_epoch()).count();
  return options;
}

double agreed_cost(const CommitRecord& record) {
  return std::accumulate(record.egress.begin(), record.egress.end(), 0.0,
                         [](double sum, const EgressCost& one) { return sum + one.cost; });
}

std::ptrdiff_t decisions(const Cluster& cluster, Verdict verdict) {
  return std::ranges::count_if(cluster.history(), [verdict](const CommitRecord& record) {
    return record.k_decision && record.k_decision->verdict == verdict;
  });
}

std::uint32_t largest_k(const Cluster& cluster) {
  std::uint32_t k = 0;
  for (const CommitRecord& record : cluster.history()) k = std::max(k, record.next_k);
  return k;
}

// A region dies in the middle of things, and is back an hour later.
void disturb(Cluster& cluster, int day) {
  static const char* const kRegions[] = {"a", "b", "c"};
  const char* region = kRegions[day % 3];
  cluster.run_until(cluster.now() + hours{5} + minutes{7 * day});
  cluster.kill_region(region);
  cluster.run_until(cluster.now() + hours{1});
  cluster.start(region);
}

// Paid in each day until the run ended.
std::vector<double> pay(Cluster& cluster, int days_long) {
  std::vector<double> paid;
  double before = 0;
  for (int day = 0; day < days_long; ++day) {
    disturb(cluster, day);
    cluster.run_until(days{day + 1});
    paid.push_back(cluster.paid() - before);
    before = cluster.paid();
  }
  return paid;
}

TEST(Budget, LongerRoundsKeepADaysLimitForAMonthWithLossesEveryDay) {
  Cluster cluster(options_of({.per_day = 40, .action = Action::stretch_k}, 40));
  const std::vector<double> paid = pay(cluster, 30);
  for (std::size_t day = 0; day < paid.size(); ++day) {
    EXPECT_LE(paid[day], 40) << "day " << day;
    EXPECT_GE(paid[day], 28) << "day " << day << ": money was left";
  }
  EXPECT_GE(decisions(cluster, Verdict::stretched), 1);
  EXPECT_EQ(decisions(cluster, Verdict::paused), 0);
}

TEST(Budget, APauseKeepsADaysLimitAndKStaysUntilTheMoneyIsSpent) {
  Cluster cluster(options_of({.per_day = 40, .action = Action::pause}, 40));
  const std::vector<double> paid = pay(cluster, 10);
  // A region that comes back while the others pause fetches what it missed: a snapshot, or payloads
  // of a round or two. Nobody foresees that.
  constexpr double kReturn = 2;
  for (std::size_t day = 0; day < paid.size(); ++day) {
    EXPECT_LE(paid[day], 40 + kReturn) << "day " << day;
    EXPECT_GE(paid[day], 28) << "day " << day << ": money was left";
  }
  EXPECT_GE(decisions(cluster, Verdict::paused), 10);
  EXPECT_EQ(decisions(cluster, Verdict::stretched), 0);
  EXPECT_GE(decisions(cluster, Verdict::relaxed), 9);
  for (const CommitRecord& record : cluster.history()) {
    if (record.k_decision && record.k_decision->verdict == Verdict::relaxed) {
      EXPECT_EQ(record.next_k, kK);
    }
  }
}

// Leaders come and go, and one of three has the date of yesterday.
TEST(Budget, AClockThatIsADayBehindGivesNobodyADaysMoneyAgain) {
  Cluster cluster(options_of({.per_day = 40, .action = Action::pause}, 40));
  cluster.set_wall_clock("b", -days{1});
  constexpr double kReturn = 2;  // as above
  double before = 0;
  for (int day = 0; day < 10; ++day) {
    for (int part = 0; part < 8; ++part) {
      cluster.run_until(days{day} + hours{3 * part + 2});
      if (const auto leader = cluster.leader()) cluster.kill_coordinator(*leader);
      cluster.run_until(cluster.now() + minutes{30});
      for (const char* region : {"a", "b", "c"}) cluster.start(region);
    }
    cluster.run_until(days{day + 1});
    EXPECT_LE(cluster.paid() - before, 40 + kReturn) << "day " << day;
    before = cluster.paid();
  }
}

TEST(Budget, AMonthsLimitIsSpreadOverIt) {
  Cluster cluster(options_of({.per_month = 31 * 40, .action = Action::stretch_k}, 62));
  const std::vector<double> paid = pay(cluster, 31);
  EXPECT_LE(cluster.paid(), 31 * 40);
  EXPECT_GE(cluster.paid(), 31 * 36);
  for (std::size_t day = 0; day < paid.size(); ++day) EXPECT_GE(paid[day], 30) << "day " << day;
}

TEST(Budget, ARunsLimitLastsUntilItsEnd) {
  Cluster cluster(options_of({.total = 400, .action = Action::stretch_k}, 10));
  pay(cluster, 5);
  ASSERT_TRUE(cluster.finish(days{30})) << cluster.describe();
  EXPECT_LE(cluster.paid(), 400);
  EXPECT_GE(cluster.paid(), 360);
  EXPECT_EQ(cluster.history().size(), cluster.rounds_of_run());
}

TEST(Budget, WithALargestKTheLimitGivesWay) {
  Cluster cluster(options_of({.total = 100, .action = Action::stretch_k, .k_max = 3 * kK}, 10));
  ASSERT_TRUE(cluster.finish(days{30})) << cluster.describe();
  EXPECT_EQ(largest_k(cluster), 3 * kK);
  EXPECT_GT(cluster.paid(), 100);
}

TEST(Budget, OnlyAWarningLeavesKAlone) {
  Cluster cluster(options_of({.per_day = 10, .action = Action::warn}, 2));
  ASSERT_TRUE(cluster.finish(days{30})) << cluster.describe();
  EXPECT_EQ(largest_k(cluster), kK);
  EXPECT_FALSE(cluster.history().front().egress.empty());
}

TEST(Budget, WithoutOneRecordsSayNothingOfMoney) {
  Cluster cluster(options_of({}, 1));
  cluster.run_until(hours{6});
  ASSERT_FALSE(cluster.history().empty());
  EXPECT_TRUE(cluster.history().back().egress.empty());
  EXPECT_EQ(cluster.history().back().decided_unix_s, 0);
}

// What a region paid is known again after it died, and after it lost its disk.
TEST(Budget, WhatIsAgreedOnIsWhatWasPaidHoweverOftenRegionsDie) {
  Cluster cluster(options_of({.per_day = 1e6, .action = Action::warn}, 40));
  for (int day = 0; day < 20; ++day) {
    disturb(cluster, day);
    if (day % 5 == 4) {
      cluster.wipe("c");
      cluster.run_until(cluster.now() + hours{1});
      cluster.start("c");
    }
  }
  cluster.run_until(cluster.now() + hours{2});
  const double agreed = agreed_cost(cluster.history().back());
  EXPECT_LE(agreed, cluster.paid());
  EXPECT_GE(agreed, 0.97 * cluster.paid());
}

TEST(Budget, TheForecastOfATenthOfTheRunIsRightWithinFivePercent) {
  const ClusterOptions options = options_of({.total = 1e6, .action = Action::warn}, 20);
  Cluster cluster(options);
  cluster.run_until(days{2});
  EgressMeter meter(options.k_policy.budget, {.steps = kK * options.rounds, .k = kK});
  std::uint64_t step = 0;
  for (const CommitRecord& record : cluster.history()) {
    meter.add(record, step, kK);
    step += kK;
  }
  ASSERT_TRUE(cluster.finish(days{60})) << cluster.describe();
  EXPECT_NEAR(*meter.at_end(kK) / cluster.paid(), 1, 0.05);
}

}  // namespace
}  // namespace causeway::diloco::testing
