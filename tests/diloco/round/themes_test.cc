// What other systems' users suffer from, made impossible: one test per theme, named after it. The
// whole list is in docs/themes.md, with the tests that show it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "tests/diloco/cluster/cluster.h"
#include "tests/diloco/round/expectations.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// T1: the slow transfer finishes and is admitted late; the round does not wait for it.
TEST(T1, ASlowTransferIsAdmittedLateAndNobodyWaitsForIt) {
  ClusterOptions options{.rounds = 40, .staleness_max = 3, .push_loss = 0};
  Cluster cluster(options);
  cluster.run_until(seconds{30});
  cluster.slow_down("c", seconds{4});
  const Round before = cluster.history().size();
  cluster.run_until(seconds{120});
  const Round after = cluster.history().size();
  cluster.slow_down("c", Time{0});
  std::size_t late = 0;
  for (Round round = before; round < after; ++round) {
    for (const Participant& one : cluster.history()[round].participants) {
      late += one.region == "c" && one.round < round ? 1 : 0;
    }
  }
  EXPECT_GE(late, 2);
  EXPECT_GE(after, before + 5);
  EXPECT_TRUE(cluster.finish(minutes{60})) << cluster.describe();
  expect_one_state(cluster, options);
}

// T2: whoever waits says for whom, for what and how far it is.
TEST(T2, EveryWaitHasAReason) {
  Cluster cluster({.rounds = 1000});
  cluster.run_until(seconds{20});
  cluster.kill_region("b");
  cluster.kill_region("c");
  cluster.run_until(seconds{60});
  EXPECT_NE(cluster.describe().find("unreachable: b, c"), std::string::npos) << cluster.describe();
}

// T2: what is on no disk any more is not waited for: it is taken out of its round.
TEST(T2, APayloadThatEveryRegionLostIsTakenOutAndTheRunGoesOn) {
  ClusterOptions options{.rounds = 100, .push_loss = 0};
  Cluster cluster(options);
  Time time = seconds{20};
  for (; cluster.history().size() % options.checkpoint_rounds != 2; time += milliseconds{100}) {
    cluster.run_until(time);
  }
  for (const std::string& region : options.regions) cluster.lose_spool(region);
  for (const std::string& region : options.regions) cluster.start(region);
  EXPECT_TRUE(cluster.finish(minutes{60})) << cluster.describe();
  expect_one_state(cluster, options);
}

// T3, T4: a coordinator dies between any two of its actions, the leader as well as a follower; the
// run goes on and ends with one state.
class KilledAt : public ::testing::TestWithParam<const char*> {};
TEST_P(KilledAt, EveryActionTheRunEndsWithOneState) {
  for (std::uint64_t action = 0; action < 250; ++action) {
    ClusterOptions options{.seed = action, .rounds = 3, .push_loss = 0};
    options.crash_at = {GetParam(), action};
    try {
      Cluster cluster(options);
      ASSERT_TRUE(cluster.finish(minutes{60})) << "action " << action << cluster.describe();
      expect_one_state(cluster, options);
    } catch (const Violation& violation) {
      FAIL() << "action " << action << ": " << violation.what();
    }
  }
}
INSTANTIATE_TEST_SUITE_P(T3, KilledAt, ::testing::Values("b"));
INSTANTIATE_TEST_SUITE_P(T4, KilledAt, ::testing::Values("a"));

// T4: one link is gone; both of its ends reach the third region, and all three take part.
TEST(T4, OneLinkThatIsGoneTakesNoRegionOut) {
  ClusterOptions options{.rounds = 40, .push_loss = 0};
  Cluster cluster(options);
  cluster.run_until(seconds{20});
  const std::string leader = cluster.leader().value();
  cluster.sever(leader, leader == "b" ? "a" : "b");
  cluster.run_until(seconds{40});
  const Round before = cluster.history().size();
  EXPECT_TRUE(cluster.finish(minutes{60})) << cluster.describe();
  expect_one_state(cluster, options);
  std::map<std::string, Round> listed;
  for (Round round = before; round < options.rounds; ++round) {
    for (const Participant& one : cluster.history()[round].participants) ++listed[one.region];
  }
  // What takes two links instead of one comes too late now and then.
  for (const std::string& region : options.regions)
    EXPECT_GE(4 * listed[region], 3 * (options.rounds - before)) << region;
}

// T4: a witness brings messages, and no payloads: nobody waits for those.
TEST(T4, WhatAWitnessCannotBringIsNotWaitedFor) {
  ClusterOptions options{.rounds = 1000, .witness = "c", .push_loss = 0};
  Cluster cluster(options);
  cluster.run_until(seconds{20});
  const std::string leader = cluster.leader().value();
  ASSERT_NE(leader, "c");
  const std::string other = leader == "a" ? "b" : "a";
  cluster.sever(leader, other);
  cluster.run_until(seconds{40});
  const Round before = cluster.history().size();
  cluster.run_until(seconds{100});
  EXPECT_GE(cluster.history().size(), before + 10) << "at the pace of one region";
  EXPECT_GE(cluster.version(other) + 2, cluster.history().size()) << "it hears of every record";
  EXPECT_EQ(cluster.describe().find("leader ?"), std::string::npos) << cluster.describe();
}

// T4: four of nine regions die at once, the leader among them.
TEST(T4, OfNineRegionsFiveGoOnWithinTheBound) {
  ClusterOptions options{.regions = {"a", "b", "c", "d", "e", "f", "g", "h", "i"}, .rounds = 1000};
  Cluster cluster(options);
  cluster.run_until(seconds{60});
  std::vector<std::string> doomed{cluster.leader().value()};
  for (const std::string& region : options.regions) {
    if (doomed.size() < 4 && region != doomed.front()) doomed.push_back(region);
  }
  for (const std::string& region : doomed) cluster.kill_region(region);
  const Round before = cluster.history().size();
  const Time died_at = cluster.now();
  while (cluster.history().size() == before && cluster.now() < died_at + minutes{10}) {
    cluster.run_until(cluster.now() + milliseconds{50});
  }
  const Time taken = cluster.now() - died_at;
  RecordProperty("next_round_ms", std::to_string(taken.count() / 1000));
  // K steps, the longest grace, noticing the loss and electing, transfers and agreement.
  EXPECT_LE(taken, options.compute_max + seconds{20} + 2 * seconds{4} + seconds{5});
}

// T5: fresh or wiped regions only receive: what they end with is the run's state.
TEST(T5, AStormOfWipedRegionsTakesTheRunsState) {
  ClusterOptions options{.regions = {"a", "b"}, .rounds = 40};
  Cluster cluster(options);
  cluster.run_until(seconds{20});
  for (int i = 0; i < 4; ++i) {
    cluster.wipe("b");
    cluster.run_until(cluster.now() + seconds{5});
    cluster.start("b");
    cluster.run_until(cluster.now() + seconds{25});
  }
  EXPECT_TRUE(cluster.finish(minutes{60})) << cluster.describe();
  expect_one_state(cluster, options);
}

// T5: a forked run begins with its parent's state in every region, whatever is lost meanwhile, and
// in those that come late.
TEST(T5, AForkedRunBeginsWithItsParentsStateEverywhere) {
  ClusterOptions options{.rounds = 30, .forked = true};
  Cluster cluster(options);
  cluster.run_until(seconds{40});
  EXPECT_EQ(cluster.membership().origin->run_id, "run-0");
  EXPECT_EQ(cluster.history().front().state, cluster.membership().origin->state);
  EXPECT_GE(cluster.restores(), 3);
  cluster.wipe("c");
  cluster.run_until(seconds{50});
  cluster.start("c");
  EXPECT_TRUE(cluster.finish(minutes{60})) << cluster.describe();
  expect_one_state(cluster, options);
}

// T6: no round is decided by less than a majority, whatever the speeds.
TEST(T6, NobodyCommitsAlone) {
  ClusterOptions options{.rounds = 1000, .slowness = {{"c", 4}}};
  Cluster cluster(options);
  cluster.run_until(seconds{20});
  for (const char* other : {"b", "c"}) cluster.cut("a", other);
  cluster.cut("b", "c");
  cluster.run_until(seconds{30});
  const Round before = cluster.history().size();
  cluster.run_until(seconds{300});
  EXPECT_EQ(cluster.history().size(), before);
  cluster.heal();
  cluster.run_until(seconds{400});
  EXPECT_GT(cluster.history().size(), before + 5);
}

// T10: a late joiner costs the others nothing.
TEST(T10, NobodyWaitsForAJoiner) {
  const auto rounds_until = [](bool joins) {
    ClusterOptions options{.rounds = 1000, .push_loss = 0};
    Cluster cluster(options);
    cluster.run_until(seconds{30});
    cluster.wipe("c");
    cluster.run_until(seconds{60});
    if (joins) cluster.start("c");
    cluster.run_until(seconds{90});
    return cluster.history().size();
  };
  EXPECT_GE(rounds_until(true) + 1, rounds_until(false));
}

// T10: the donor dies while the joiner takes its snapshot, and then the joiner.
TEST(T10, AJoinerSurvivesItsDonorsDeathAndItsOwn) {
  ClusterOptions options{.rounds = 60};
  Cluster cluster(options);
  cluster.run_until(seconds{40});
  cluster.wipe("c");
  cluster.run_until(seconds{55});
  cluster.start("c");
  cluster.slow_down("a", seconds{2});
  cluster.slow_down("b", seconds{2});
  cluster.run_until(seconds{60});
  cluster.kill_region("a");
  cluster.run_until(seconds{64});
  cluster.kill_region("c");
  cluster.run_until(seconds{66});
  for (const char* region : {"a", "b"}) cluster.slow_down(region, Time{0});
  cluster.start("a");
  cluster.start("c");
  EXPECT_TRUE(cluster.finish(minutes{60})) << cluster.describe();
  expect_one_state(cluster, options);
}

// T11: what a coordinator keeps in memory of a run's history does not grow with it.
TEST(T11, MemoryOfTheHistoryIsBoundedOverAThousandRounds) {
  ClusterOptions options{.rounds = 1000, .push_loss = 0};
  options.compute_min = options.compute_max = milliseconds{200};
  Cluster cluster(options);
  Index most = 0;
  for (Time time = seconds{10}; cluster.history().size() < 900; time += seconds{10}) {
    cluster.run_until(time);
    if (time == seconds{100}) cluster.wipe("c");
    if (time == seconds{150}) cluster.start("c");
    for (const std::string& region : options.regions) {
      if (cluster.alive(region)) most = std::max(most, cluster.entries_in_memory(region));
    }
  }
  EXPECT_LE(most, 40);
  EXPECT_TRUE(cluster.finish(minutes{120})) << cluster.describe();
  expect_one_state(cluster, options);
}

ProtocolOptions options_of_a() {
  ProtocolOptions options;
  options.self = "a";
  options.pace = {.steps = 10, .k = 1};
  options.staleness_max = 2;
  return options;
}

// `peer` says that it holds a contribution of `region`.
inter::BlobId hear(RoundProtocol& protocol, const std::string& peer, const std::string& region,
                   Round round) {
  Contribution made{.run_id = "run", .region = region, .round = round};
  made.payload = {.hash = {static_cast<std::uint8_t>(round)}, .size_bytes = 1 + round};
  protocol.handle(PeerSaid{peer, Holding{made, made.payload.size_bytes, true}}, seconds{1});
  return made.payload;
}

// T11: nor with what a peer says. A region that lags hears of rounds that it does not know yet, but
// no region has more contributions at once than may still be listed.
TEST(T11, ContributionsToFutureRoundsAreBounded) {
  PersistentState joiner;
  joiner.run_id = "run";
  RoundProtocol protocol(options_of_a(), joiner);
  protocol.handle(PeerUp{"b", "disk"}, seconds{1});
  inter::BlobId newest;
  for (Round round = 5; round < 1000; ++round) newest = hear(protocol, "b", "b", round);
  const auto wanted = protocol.wanted();
  EXPECT_EQ(wanted.size(), 3) << "one in time, and two that may come late";
  EXPECT_NE(std::ranges::find(wanted, newest), wanted.end());
  hear(protocol, "b", "b", 10);
  hear(protocol, "b", "c", 10);  // a name that no log has, in another's mouth
  hear(protocol, "b", "a", 2000);
  EXPECT_EQ(protocol.wanted(), wanted);
}

// T11: nobody's word on another region's contributions takes that region's own away.
TEST(T11, ARegionIsNotShutOutByWhatAnotherSaysOfIt) {
  PersistentState state;
  state.run_id = "run";
  Membership members;
  for (const char* region : {"a", "b", "c"}) members = with(members, {.region = region});
  state.raft.log = {{.term = 1, .body = members}};
  state.raft.term = state.raft.committed = 1;
  RoundProtocol protocol(options_of_a(), state);
  const auto wants = [&protocol](const inter::BlobId& blob) {
    const auto wanted = protocol.wanted();
    return std::ranges::find(wanted, blob) != wanted.end();
  };
  for (const char* peer : {"b", "c"}) protocol.handle(PeerUp{peer, "disk"}, seconds{1});
  const inter::BlobId first = hear(protocol, "c", "c", 0);
  EXPECT_FALSE(wants(hear(protocol, "b", "c", Round{1} << 60)));
  for (Round round = 1; round < 10; ++round) hear(protocol, "b", "c", round);
  EXPECT_TRUE(wants(first)) << "still there";
  EXPECT_LE(protocol.wanted().size(), 3);
  EXPECT_TRUE(wants(hear(protocol, "c", "c", 1))) << "still heard";
}

// T12: each sample of a region is counted at most once, and all that were listed in order are there
// (History checks the first part).
TEST(T12, SamplesAreCountedOnceThroughKillsAndRejoins) {
  ClusterOptions options{.rounds = 30};
  Cluster cluster(options);
  for (const auto& [at, region] : std::vector<std::pair<Time, std::string>>{
           {seconds{12}, "b"}, {seconds{31}, "c"}, {seconds{55}, "a"}}) {
    cluster.run_until(at);
    cluster.kill_region(region);
    cluster.run_until(at + seconds{6});
    cluster.start(region);
  }
  EXPECT_TRUE(cluster.finish(minutes{60})) << cluster.describe();
  std::set<std::pair<std::string, std::uint64_t>> begins;
  for (const CommitRecord& record : cluster.history()) {
    for (const Participant& one : record.participants) {
      EXPECT_TRUE(begins.insert({one.region, one.data_begin}).second);
    }
  }
}

}  // namespace
}  // namespace causeway::diloco::testing
