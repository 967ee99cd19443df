// Hundreds of seeded runs of the real round protocol in virtual time, with crashes, cuts, lost
// messages and lost disks. Goal: one history for all, nothing committed twice, progress once
// everything is healed. A failure prints its seed: set it in kPinnedSeeds.
#include <gtest/gtest.h>

#include <utility>

#include "tests/diloco/cluster.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::Cluster;
using testing::ClusterOptions;
using testing::Violation;

void expect_one_state(const Cluster& cluster, const ClusterOptions& options) {
  EXPECT_EQ(cluster.history().size(), options.rounds);
  for (const std::string& region : options.regions) {
    EXPECT_EQ(cluster.version(region), options.rounds) << region;
    EXPECT_EQ(cluster.worker_state(region), cluster.worker_state(options.regions.front()))
        << region;
  }
}

void run_to_the_end(Cluster& cluster, const ClusterOptions& options) {
  EXPECT_TRUE(cluster.finish(cluster.now() + minutes{30})) << cluster.describe();
  expect_one_state(cluster, options);
}

TEST(RoundProtocol, CompletesEveryRoundWithEveryRegionWhenNothingFails) {
  for (const auto& regions : std::vector<std::vector<std::string>>{
           {"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d"}}) {
    ClusterOptions options{.regions = regions,
                           .contributions_min = regions.size() / 2 + 1,
                           .compute_max = seconds{3},
                           .push_loss = 0};
    Cluster cluster(options);
    run_to_the_end(cluster, options);
    for (const CommitRecord& record : cluster.history()) {
      EXPECT_EQ(record.participants.size(), regions.size()) << "round " << record.round;
    }
  }
}

TEST(RoundProtocol, GoesOnWithoutARegionThatDiedAndTakesItBack) {
  ClusterOptions options{.rounds = 20};
  Cluster cluster(options);
  cluster.run_until(seconds{10});
  cluster.kill_region("c");
  const Round died_at = cluster.history().size();
  cluster.run_until(seconds{60});
  const Round back_at = cluster.history().size();
  EXPECT_GE(back_at, died_at + 5);
  cluster.start("c");
  run_to_the_end(cluster, options);
  EXPECT_EQ(cluster.history().back().participants.size(), 3);
}

TEST(RoundProtocol, WaitsForADeadRegionOnlyOnce) {
  ClusterOptions options{.rounds = 1000};
  Cluster cluster(options);
  cluster.run_until(seconds{30});
  cluster.kill_region("b");
  cluster.run_until(seconds{60});
  const Round before = cluster.history().size();
  cluster.run_until(seconds{160});
  // Compute takes at most 4 s; transfers and applying well under 5 s together; no grace.
  EXPECT_GE(cluster.history().size(), before + 11);
}

TEST(RoundProtocol, AJoinerWithAnEmptyDiskIsBroughtUpBySnapshotAndReplay) {
  ClusterOptions options{.rounds = 30};
  Cluster cluster(options);
  cluster.run_until(seconds{50});
  cluster.wipe("b");
  cluster.run_until(seconds{70});
  cluster.start("b");
  run_to_the_end(cluster, options);
  EXPECT_GE(cluster.restores(), 1);
  EXPECT_EQ(cluster.history().back().participants.size(), 3);
}

TEST(RoundProtocol, TheDecidersDeathPausesTheRunAndItsRestartResumesIt) {
  ClusterOptions options;
  Cluster cluster(options);
  cluster.run_until(seconds{12});
  cluster.kill_region("a");
  const Round paused_at = cluster.history().size();
  cluster.run_until(seconds{100});
  EXPECT_EQ(cluster.history().size(), paused_at);
  cluster.start("a");
  run_to_the_end(cluster, options);
}

TEST(RoundProtocol, ARegionCutOffFromOnePeerStillGetsItsPayloads) {
  ClusterOptions options;
  Cluster cluster(options);
  cluster.run_until(seconds{5});
  cluster.cut("b", "c");
  run_to_the_end(cluster, options);
  EXPECT_EQ(cluster.history().back().participants.size(), 3);
}

TEST(RoundProtocol, ARegionWithAnotherStateIsNotListedAndStops) {
  ClusterOptions options;
  Cluster cluster(options);
  cluster.run_until(seconds{12});
  cluster.corrupt_state("c");
  cluster.run_until(seconds{80});
  ASSERT_TRUE(cluster.outcome("c"));
  EXPECT_EQ(cluster.outcome("c")->exit_code, 4);
  EXPECT_EQ(cluster.history().back().participants.size(), 2);
  EXPECT_EQ(cluster.worker_state("a").state, cluster.worker_state("b").state);
}

TEST(RoundProtocol, ASlowRegionIsWaitedForUntilTheGraceFitsIt) {
  ClusterOptions options{.rounds = 30, .slowness = {{"c", 3}}};
  Cluster cluster(options);
  run_to_the_end(cluster, options);
  std::size_t listed = 0;
  for (const CommitRecord& record : cluster.history()) listed += record.participants.size() == 3;
  EXPECT_GE(listed, 25);
}

TEST(RoundProtocol, EveryListedPayloadHasTwoHoldersWhileTwoRegionsLive) {
  ClusterOptions options{.rounds = 40};
  Cluster cluster(options);
  Round checked = 0;
  for (Time time{0}; time < minutes{3}; time += milliseconds{50}) {
    cluster.run_until(time);
    for (; checked < cluster.history().size(); ++checked) {
      for (const Participant& participant : cluster.history()[checked].participants) {
        EXPECT_GE(cluster.holders(participant.payload), 2) << "round " << checked;
      }
    }
  }
  EXPECT_GE(checked, 20);
}

// ---- Random schedules ----

// Two lost disks at once may take a payload with them, so that only one is lost per run.
void random_fault(Cluster& cluster, const ClusterOptions& options, bool& wiped) {
  auto& random = cluster.random();
  const std::string& region = options.regions[random() % options.regions.size()];
  const std::string& other = options.regions[random() % options.regions.size()];
  const bool is_decider = region == options.regions.front();
  switch (random() % 6) {
    case 0:
      return cluster.kill_coordinator(region);
    case 1:
      return cluster.kill_worker(region);
    case 2:
      return cluster.kill_region(region);
    case 3:
      if (is_decider || std::exchange(wiped, true)) return cluster.start(region);
      return cluster.wipe(region);
    case 4:
      if (region != other) cluster.cut(region, other);
      return;
    default:
      return cluster.heal();
  }
}

void run_schedule(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  ClusterOptions options{.seed = seed};
  static const std::vector<std::string> kNames{"a", "b", "c", "d"};
  const std::size_t count = 2 + seed % 3;
  options.regions.assign(kNames.begin(), kNames.begin() + static_cast<std::ptrdiff_t>(count));
  options.contributions_min = seed % 7 == 0 ? 1 : count / 2 + 1;
  options.crash_between_actions = seed % 2 == 0 ? 0.005 : 0;
  if (seed % 5 == 0) options.slowness["b"] = 4;
  try {
    Cluster cluster(options);
    // Twelve rounds of at least two seconds each: the run cannot end before everything is healed.
    bool wiped = false;
    while (cluster.now() < seconds{20}) {
      cluster.run_until(cluster.now() + cluster.random_time(milliseconds{200}, seconds{4}));
      random_fault(cluster, options, wiped);
    }
    cluster.heal();
    EXPECT_TRUE(cluster.finish(cluster.now() + minutes{60})) << cluster.describe();
    expect_one_state(cluster, options);
  } catch (const Violation& violation) {
    ADD_FAILURE() << violation.what();
  }
}

class RandomSchedules : public ::testing::TestWithParam<int> {};

TEST_P(RandomSchedules, KeepOneHistoryAndMakeProgressOnceHealed) {
  constexpr std::uint64_t kSeedsPerBlock = 50;
  const auto first = static_cast<std::uint64_t>(GetParam()) * kSeedsPerBlock;
  for (std::uint64_t seed = first; seed < first + kSeedsPerBlock && !HasFailure(); ++seed) {
    run_schedule(seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, RandomSchedules, ::testing::Range(0, 10));

}  // namespace
}  // namespace causeway::diloco
