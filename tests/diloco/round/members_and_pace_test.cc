// Members that come and go, K that changes, and regions of unequal speed.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/diloco/cluster/cluster.h"
#include "tests/diloco/round/expectations.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// Whoever says again what it said rounds ago.
TEST(Replay, MessagesOfAnOlderRoundChangeNothing) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ClusterOptions options{.seed = seed, .rounds = 20, .push_loss = 0, .replayed = 0.2};
    Cluster cluster(options);
    EXPECT_TRUE(cluster.finish(minutes{10})) << cluster.describe();
    expect_one_state(cluster, options);
    EXPECT_LE(cluster.term(), 3) << "an old message made them elect anew";
  }
}

// Members come and go while the run goes on.
TEST(Members, ARegionIsAddedTakesPartAndIsRemoved) {
  ClusterOptions options{.rounds = 1000};
  Cluster cluster(options);
  cluster.run_until(seconds{20});
  cluster.ask("b", {.member = {.region = "d"}, .remove = false});
  cluster.run_until(seconds{25});
  cluster.add("d");
  cluster.run_until(seconds{90});
  EXPECT_TRUE(lists(cluster.history().back(), "d"));
  EXPECT_EQ(cluster.membership().voters(), 4);
  // A region that votes goes when most of the others say so, or the leader's operator.
  for (const char* asked : {"b", "c", "d"}) {
    cluster.ask(asked, {.member = {.region = "a"}, .remove = true});
  }
  cluster.run_until(seconds{150});
  EXPECT_EQ(cluster.membership().voters(), 3);
  EXPECT_FALSE(lists(cluster.history().back(), "a"));
  ASSERT_TRUE(cluster.outcome("a"));
  EXPECT_EQ(cluster.outcome("a")->exit_code, 3);
}

TEST(Members, ARemovalThatLeavesTooFewVotesIsRefused) {
  Cluster cluster(ClusterOptions{.rounds = 1000});
  cluster.run_until(seconds{20});
  const auto change = [&cluster](const std::string& region, bool remove) {
    cluster.ask("a", {.member = {.region = region}, .remove = remove});
    cluster.run_until(cluster.now() + seconds{5});
    return cluster.membership().find(region) != nullptr;
  };
  EXPECT_TRUE(change("d", false));  // they never come, and so have no vote
  EXPECT_TRUE(change("e", false));
  EXPECT_TRUE(change("b", true));
  EXPECT_FALSE(change("e", true));
  EXPECT_FALSE(change("b", true));
  ASSERT_TRUE(cluster.outcome("b"));
  EXPECT_EQ(cluster.outcome("b")->exit_code, 3);
}

TEST(Members, WhoIsRemovedWhileItIsAwayEndsWhenItHearsSo) {
  Cluster cluster(ClusterOptions{.rounds = 1000});
  cluster.run_until(seconds{20});
  cluster.kill_region("c");
  cluster.ask("a", {.member = {.region = "c"}, .remove = true});
  cluster.run_until(seconds{40});
  cluster.start("c");
  cluster.run_until(seconds{50});
  ASSERT_TRUE(cluster.outcome("c")) << cluster.describe();
  EXPECT_EQ(cluster.outcome("c")->exit_code, 3);
}

// K changes by record, so that every region changes it on the same round (Cluster checks that their
// records are the same), and whoever comes to lead goes on from there.
TEST(AutoK, ChangesThroughLossesOfTheLeaderAndTheRunTakesItsStepsAllTheSame) {
  ClusterOptions options{.rounds = 150, .push_loss = 0};
  options.k_policy = {.k_min = 2, .k_max = 32, .refit_rounds = 4, .price = {}, .overlap = {}};
  Cluster cluster(options);
  for (int death = 1; death <= 4; ++death) {
    cluster.run_until(seconds{40 * death});
    const auto leader = cluster.leader();
    if (!leader) continue;
    cluster.kill_region(*leader);
    cluster.run_until(cluster.now() + seconds{8});
    cluster.start(*leader);
  }
  EXPECT_TRUE(cluster.finish(minutes{60})) << cluster.describe();
  EXPECT_EQ(cluster.history().size(), cluster.rounds_of_run());
  EXPECT_LT(cluster.history().size(), 100);
  const auto changes = std::ranges::count_if(cluster.history(), [](const CommitRecord& record) {
    return record.k_decision && record.k_decision->k != record.k_decision->from;
  });
  EXPECT_GE(changes, 2);
  for (const std::string& region : options.regions)
    EXPECT_EQ(cluster.worker_state(region), cluster.worker_state("a")) << region;
}

// The smallest quorum and no grace: each contribution makes a round, whoever else is under way.
TEST(Asynchronous, ASlowRegionHoldsNobodyUpAndAllOfItsWorkIsListed) {
  ClusterOptions options{.rounds = 80, .staleness_max = 16, .contributions_min = 1, .push_loss = 0};
  options.grace_min = options.grace_max = Time{0};
  options.slowness = {{"c", 4}};
  Cluster cluster(options);
  EXPECT_TRUE(cluster.finish(minutes{60})) << cluster.describe();
  expect_one_state(cluster, options);
  std::size_t alone = 0, late = 0;
  std::uint64_t end = 0;  // of the samples of c that were listed
  for (const CommitRecord& record : cluster.history()) {
    alone += record.participants.size() == 1 ? 1 : 0;
    for (const Participant& one : record.participants) {
      if (one.region != "c") continue;
      EXPECT_EQ(one.data_begin, end);
      end = one.data_cursor;
      late += one.round < record.round ? 1 : 0;
    }
  }
  EXPECT_GT(alone, options.rounds / 2);
  EXPECT_GT(late, 4);
}

// A region that is cut off goes on training; what it did comes as a part of its own.
TEST(CutOff, WhatWasDoneMeanwhileIsListedWhenTheRegionIsBackInTime) {
  ClusterOptions options{.rounds = 60, .staleness_max = 4, .push_loss = 0};
  options.compute_min = options.compute_max = seconds{8};
  Cluster cluster(options);
  cluster.run_until(seconds{40});
  for (const char* other : {"a", "b"}) cluster.cut("c", other);
  cluster.run_until(seconds{75});
  cluster.heal();
  cluster.run_until(seconds{160});
  const bool listed = std::ranges::any_of(cluster.history(), [](const CommitRecord& record) {
    return std::ranges::any_of(record.participants, [](const Participant& one) {
      return one.region == "c" && one.part > 0;
    });
  });
  EXPECT_TRUE(listed);
}

bool is_listed(const Cluster& cluster, Round round, std::uint32_t part) {
  return std::ranges::any_of(cluster.history(), [&](const CommitRecord& record) {
    return std::ranges::any_of(record.participants, [&](const Participant& one) {
      return one.region == "c" && one.round == round && one.part == part;
    });
  });
}

// It has the record of a round that it contributed to, and not its payloads.
TEST(CutOff, WhoIsCutOffBetweenARecordAndItsPayloadsTrainsOnToo) {
  int met = 0;
  for (int moment = 0; moment < 200 && met < 5; ++moment) {
    ClusterOptions options{.rounds = 60, .staleness_max = 4, .push_loss = 0.5};
    options.seed = static_cast<std::uint64_t>(1 + moment);
    options.compute_min = options.compute_max = seconds{8};
    Cluster cluster(options);
    cluster.run_until(seconds{40} + milliseconds{50 * moment});
    for (const char* other : {"a", "b"}) cluster.cut("c", other);
    cluster.run_until(seconds{75});
    const Round applied = cluster.worker_state("c").version;
    const bool between = cluster.version("c") > applied;
    cluster.heal();
    cluster.run_until(seconds{160});
    if (!between) continue;
    ++met;
    EXPECT_TRUE(is_listed(cluster, applied, 1)) << "moment " << moment << ", round " << applied;
  }
  EXPECT_EQ(met, 5);
}

}  // namespace
}  // namespace causeway::diloco::testing
