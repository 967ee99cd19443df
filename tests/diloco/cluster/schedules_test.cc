// Thousands of random schedules of the real protocol in virtual time, and known bugs that the
// checkers must find. A failure prints its seed, shrunk: `schedule_runner SEED` replays it.
#include <gtest/gtest.h>

#include "tests/diloco/cluster/schedule.h"

namespace causeway::diloco::testing {
namespace {

// Sanitizers take ten to twenty times as long, and look for other things.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kPerBlock = 50;
#else
constexpr std::uint64_t kPerBlock = 250;
#endif

// A block of them. "MoreBlocks" are labelled slow: `./check --slow` runs them too. Returns how many
// snapshots were taken over.
std::size_t expect_all_hold(Schedule (*make)(std::uint64_t seed), int block,
                            std::uint64_t per_block = kPerBlock) {
  std::size_t restores = 0;
  const auto first = static_cast<std::uint64_t>(block) * per_block;
  for (std::uint64_t seed = first; seed < first + per_block; ++seed) {
    const Result result = run(make(seed));
    if (!result.failure.empty()) return ADD_FAILURE() << report(make(seed)), restores;
    restores += result.restores;
  }
  return restores;
}

class RandomSchedules : public ::testing::TestWithParam<int> {};
TEST_P(RandomSchedules, KeepOneHistoryLoseNothingAndEndOnceHealed) {
  expect_all_hold(make_schedule, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Blocks, RandomSchedules, ::testing::Range(0, 2));
INSTANTIATE_TEST_SUITE_P(MoreBlocks, RandomSchedules, ::testing::Range(2, 28));

class ChangingSchedules : public ::testing::TestWithParam<int> {};
TEST_P(ChangingSchedules, KeepOneHistoryWhileMembersComeAndGo) {
  expect_all_hold(make_changing_schedule, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Blocks, ChangingSchedules, ::testing::Range(0, 1));
INSTANTIATE_TEST_SUITE_P(MoreBlocks, ChangingSchedules, ::testing::Range(1, 12));

class DamagedSchedules : public ::testing::TestWithParam<int> {};
TEST_P(DamagedSchedules, ALedgerThatTheDiskSpoiltIsMendedFromTheOthers) {
  expect_all_hold(make_damaged_schedule, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Blocks, DamagedSchedules, ::testing::Range(0, 1));
INSTANTIATE_TEST_SUITE_P(MoreBlocks, DamagedSchedules, ::testing::Range(1, 8));

class SpoiltSchedules : public ::testing::TestWithParam<int> {};
TEST_P(SpoiltSchedules, ACopyThatADiskSpoiltIsThrownAwayAndFetchedAgain) {
  expect_all_hold(make_spoilt_schedule, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Blocks, SpoiltSchedules, ::testing::Range(0, 1));
INSTANTIATE_TEST_SUITE_P(MoreBlocks, SpoiltSchedules, ::testing::Range(1, 8));

class LostSchedules : public ::testing::TestWithParam<int> {};
TEST_P(LostSchedules, WhatNobodyHasIsTakenOutOfItsRoundAndTheRunGoesOn) {
  expect_all_hold(make_lost_schedule, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Blocks, LostSchedules, ::testing::Range(0, 1));
INSTANTIATE_TEST_SUITE_P(MoreBlocks, LostSchedules, ::testing::Range(1, 8));

class ShardedSchedules : public ::testing::TestWithParam<int> {};
TEST_P(ShardedSchedules, SumsOfShardsAreOneHistoryWhateverFails) {
  expect_all_hold(make_sharded_schedule, GetParam());
}
INSTANTIATE_TEST_SUITE_P(Blocks, ShardedSchedules, ::testing::Range(0, 1));
INSTANTIATE_TEST_SUITE_P(MoreBlocks, ShardedSchedules, ::testing::Range(1, 10));

class OutrunSchedules : public ::testing::TestWithParam<int> {};
TEST_P(OutrunSchedules, AWorkerThatDoesNotKeepUpTakesSnapshotsAndEndsWithTheOthers) {
  EXPECT_GT(expect_all_hold(make_outrun_schedule, GetParam(), 50), 0);
}
INSTANTIATE_TEST_SUITE_P(Blocks, OutrunSchedules, ::testing::Range(0, 1));
INSTANTIATE_TEST_SUITE_P(MoreBlocks, OutrunSchedules, ::testing::Range(1, 12));

class LyingSchedules : public ::testing::TestWithParam<int> {};
TEST_P(LyingSchedules, TheOthersGoOnWhateverOneMemberSays) {
  expect_all_hold(make_lying_schedule, GetParam(), 120);
}
INSTANTIATE_TEST_SUITE_P(Blocks, LyingSchedules, ::testing::Range(0, 2));

// What longer runs of them found beyond these blocks.
TEST(FoundSchedules, TwoLeadersOfOneTermWhileAVoteIsAddedAndADiskIsLost) {
  EXPECT_EQ(run(make_schedule(14941)).failure, "");
}

TEST(FoundSchedules, HoldersOfARejectedContributionHoldNothingOfTheNextOne) {
  EXPECT_EQ(run(make_changing_schedule(207292)).failure, "");
}

// The liar's can be had, is of an agreed state by name, and is something else.
TEST(FoundSchedules, ASnapshotOfALiarIsRefusedAndAnotherTaken) {
  const Result result = run(make_lying_schedule(153));
  EXPECT_EQ(result.failure, "");
  EXPECT_GE(result.refusals, 1);
  EXPECT_GE(result.restores, 1);
}

// ---- Known bugs ----

struct Plant {
  PlantedBug bug;
  const char* name;
  std::uint64_t first = 0;  // seed; those before it do not bring the bug out
};
void PrintTo(const Plant& plant, std::ostream* out) {
  *out << plant.name;
}

class PlantedBugs : public ::testing::TestWithParam<Plant> {};

TEST_P(PlantedBugs, AreFoundByTheCheckers) {
  const std::uint64_t first = GetParam().first;
  for (std::uint64_t seed = first; seed < first + 3000; ++seed) {
    Schedule schedule = make_schedule(seed);
    schedule.options.planted = GetParam().bug;
    const Result result = run(schedule);
    if (!result.failure.empty()) {
      RecordProperty("found", result.failure);
      return;
    }
  }
  FAIL() << "no checker noticed";
}

// Whoever still reaches an old leader mostly hears of the new one by way of a third region.
TEST(BugsWithoutDetours, AcceptStaleFramesIsFound) {
  const auto without_detours = [](std::uint64_t seed) {
    Schedule schedule = make_schedule(seed);
    schedule.options.detours = false;
    std::erase_if(schedule.faults,
                  [](const Fault& fault) { return fault.kind == Fault::Kind::sever; });
    return schedule;
  };
  constexpr std::uint64_t kFirst = 700;  // seeds before it do not bring it out
  for (std::uint64_t seed = kFirst; seed < kFirst + 3000; ++seed) {
    Schedule schedule = without_detours(seed);
    schedule.options.planted = PlantedBug::accept_stale_frames;
    if (run(schedule).failure.empty()) continue;
    EXPECT_EQ(run(without_detours(seed)).failure, "");
    return;
  }
  FAIL() << "no checker noticed";
}

// Of those that only a member that lies brings out.
class BugsForALiar : public ::testing::TestWithParam<Plant> {};

TEST_P(BugsForALiar, AreFoundByTheCheckers) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Schedule schedule = make_lying_schedule(seed);
    schedule.options.planted = GetParam().bug;
    if (!run(schedule).failure.empty()) return;
  }
  FAIL() << "no checker noticed";
}

INSTANTIATE_TEST_SUITE_P(Each, BugsForALiar,
                         ::testing::Values(Plant{PlantedBug::believe_terms, "BelieveTerms"},
                                           Plant{PlantedBug::believe_heads, "BelieveHeads"},
                                           Plant{PlantedBug::believe_hearsay, "BelieveHearsay"}),
                         [](const auto& plant) { return plant.param.name; });

// Of those that only a disk that spoils what it keeps brings out.
class BugsForADisk : public ::testing::TestWithParam<Plant> {};

TEST_P(BugsForADisk, AreFoundByTheCheckers) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Schedule schedule = make_damaged_schedule(seed);
    schedule.options.planted = GetParam().bug;
    if (!run(schedule).failure.empty()) return;
  }
  FAIL() << "no checker noticed";
}

INSTANTIATE_TEST_SUITE_P(Each, BugsForADisk,
                         ::testing::Values(Plant{PlantedBug::ignore_checksums, "IgnoreChecksums"},
                                           Plant{PlantedBug::vote_after_damage, "VoteAfterDamage"}),
                         [](const auto& plant) { return plant.param.name; });

// Of those that only payloads that a disk spoils bring out.
class BugsForASpool : public ::testing::TestWithParam<Plant> {};

TEST_P(BugsForASpool, AreFoundByTheCheckers) {
  const std::uint64_t first = GetParam().first;
  for (std::uint64_t seed = first; seed < first + 1000; ++seed) {
    Schedule schedule = make_lost_schedule(seed);
    schedule.options.planted = GetParam().bug;
    if (!run(schedule).failure.empty()) return;
  }
  FAIL() << "no checker noticed";
}

INSTANTIATE_TEST_SUITE_P(Each, BugsForASpool,
                         ::testing::Values(Plant{PlantedBug::count_unchecked, "CountUnchecked", 70},
                                           Plant{PlantedBug::hand_over_unchecked,
                                                 "HandOverUnchecked"},
                                           Plant{PlantedBug::stand_still, "StandStill"}),
                         [](const auto& plant) { return plant.param.name; });

INSTANTIATE_TEST_SUITE_P(Each, PlantedBugs,
                         ::testing::Values(Plant{PlantedBug::forget_votes, "ForgetVotes"},
                                           Plant{PlantedBug::commit_without_majority,
                                                 "CommitWithoutMajority"},
                                           Plant{PlantedBug::list_unspooled, "ListUnspooled"},
                                           Plant{PlantedBug::list_expired, "ListExpired"},
                                           Plant{PlantedBug::no_pre_vote, "NoPreVote"},
                                           Plant{PlantedBug::keep_everything, "KeepEverything"},
                                           Plant{PlantedBug::stale_greeting, "StaleGreeting", 300},
                                           Plant{PlantedBug::no_detours, "NoDetours"}),
                         [](const auto& plant) { return plant.param.name; });

}  // namespace
}  // namespace causeway::diloco::testing
