// Hundreds of seeded runs of the real round protocol in virtual time, with crashes, cuts, lost
// messages and lost disks. Goal: one history for all, nothing committed twice, progress once
// everything is healed. A failure prints its seed.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/diloco/cluster/cluster.h"

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

// In one of the newest records, late or not.
bool listed_lately(const Cluster& cluster, const std::string& region) {
  constexpr std::size_t kNewest = 3;
  const auto& history = cluster.history();
  const std::size_t from = history.size() - std::min(history.size(), kNewest);
  return std::any_of(history.begin() + static_cast<std::ptrdiff_t>(from), history.end(),
                     [&region](const CommitRecord& record) {
                       return std::ranges::any_of(
                           record.participants,
                           [&region](const Participant& one) { return one.region == region; });
                     });
}

void run_to_the_end(Cluster& cluster, const ClusterOptions& options) {
  EXPECT_TRUE(cluster.finish(cluster.now() + minutes{30})) << cluster.describe();
  expect_one_state(cluster, options);
}

TEST(RoundProtocol, CompletesEveryRoundWithEveryRegionWhenNothingFails) {
  for (const auto& regions : std::vector<std::vector<std::string>>{
           {"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "c", "d"}}) {
    ClusterOptions options{.regions = regions, .compute_max = seconds{3}, .push_loss = 0};
    Cluster cluster(options);
    run_to_the_end(cluster, options);
    for (const CommitRecord& record : cluster.history()) {
      // In the first rounds regions still learn, one after the other, that they take part.
      if (record.round < 2) continue;
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
  for (const std::string& region : options.regions) EXPECT_TRUE(listed_lately(cluster, region));
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
  for (const std::string& region : options.regions) EXPECT_TRUE(listed_lately(cluster, region));
}

// Its coordinator has every payload: only the worker was away.
TEST(RoundProtocol, ARegionThatAppliesRecordsAsSlowlyAsTheyAreMadeTakesASnapshot) {
  ClusterOptions options{.rounds = 100, .apply_min = {{"c", seconds{3}}}, .push_loss = 0};
  Cluster cluster(options);
  cluster.run_until(seconds{20});
  cluster.kill_worker("c");
  cluster.run_until(seconds{150});
  const Round behind = cluster.history().size() - cluster.version("c");
  EXPECT_EQ(behind, 0) << "records on disk";
  const Round applied = cluster.worker_state("c").version;
  ASSERT_GE(cluster.history().size(), applied + 25);
  cluster.start("c");
  cluster.run_until(seconds{250});
  EXPECT_GE(cluster.restores(), 1);
  EXPECT_LT(cluster.history().size(), cluster.worker_state("c").version + 8) << cluster.describe();
  run_to_the_end(cluster, options);
}

TEST(RoundProtocol, ARegionThatCatchesUpByItselfTakesNoSnapshot) {
  ClusterOptions options{.rounds = 100, .apply_min = {{"c", milliseconds{500}}}, .push_loss = 0};
  Cluster cluster(options);
  cluster.run_until(seconds{20});
  cluster.kill_worker("c");
  cluster.run_until(seconds{150});
  cluster.start("c");
  cluster.run_until(seconds{250});
  EXPECT_EQ(cluster.restores(), 0);
  EXPECT_LT(cluster.history().size(), cluster.worker_state("c").version + 3) << cluster.describe();
}

TEST(RoundProtocol, AnotherRegionLeadsWhenTheLeaderDies) {
  ClusterOptions options{.rounds = 30};
  Cluster cluster(options);
  cluster.run_until(seconds{12});
  const std::string leader = cluster.leader().value();
  cluster.kill_region(leader);
  const Round died_at = cluster.history().size();
  cluster.run_until(seconds{60});
  EXPECT_GE(cluster.history().size(), died_at + 5);
  EXPECT_NE(cluster.leader(), leader);
  cluster.start(leader);
  run_to_the_end(cluster, options);
}

TEST(RoundProtocol, ARegionCutOffFromOnePeerStillGetsItsPayloads) {
  ClusterOptions options;
  Cluster cluster(options);
  cluster.run_until(seconds{5});
  cluster.cut("b", "c");
  run_to_the_end(cluster, options);
  for (const std::string& region : options.regions) EXPECT_TRUE(listed_lately(cluster, region));
}

TEST(RoundProtocol, ARegionWithAnotherStateIsNotListedAndIsHealedFromASnapshot) {
  ClusterOptions options{.rounds = 30};
  Cluster cluster(options);
  cluster.run_until(seconds{26});  // while it trains
  cluster.corrupt_state("c");
  run_to_the_end(cluster, options);
  EXPECT_EQ(cluster.restores(), 1);
  EXPECT_TRUE(listed_lately(cluster, "c"));
}

// Two states, two regions: the records and payloads decide which is right.
TEST(RoundProtocol, WithoutAMajorityReplayDecidesWhichStateIsRight) {
  ClusterOptions options{.regions = {"a", "b"}, .rounds = 30};
  Cluster cluster(options);
  cluster.run_until(seconds{26});
  cluster.corrupt_state("a");
  run_to_the_end(cluster, options);
  EXPECT_EQ(cluster.restores(), 2);
}

TEST(RoundProtocol, ASlowRegionIsWaitedForUntilTheGraceFitsIt) {
  ClusterOptions options{.rounds = 30, .staleness_max = 0, .slowness = {{"c", 3}}};
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

}  // namespace
}  // namespace causeway::diloco
