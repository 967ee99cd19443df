#include "apps/run/watch/run_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/apps/watch/seen_region_fixture.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RunTable, ShowsEachRegionAndWhatTheyDoTogether) {
  const std::string table = run_table(
      {seen_region("east", {}), seen_region("west", {{"waiting", "the contribution of east"}})});
  EXPECT_THAT(table, HasSubstr("250/1,000  2.5000"));
  EXPECT_THAT(table, HasSubstr("waits for the contribution of east"));
  EXPECT_THAT(table, HasSubstr("all: 3 rounds, 10,000 tokens, 2,400 tokens/s, 4.00 MB sent, "
                               "about 5 min 0 s left"));
}

// What they are short of is the missing region's, and not lost.
TEST(RunTable, SaysOfHowManyRegionsTheSumsAreWhereOneIsNotSeen) {
  SeenRegion unseen;
  unseen.name = "asia";
  unseen.problem = "nobody answers";
  EXPECT_THAT(run_table({seen_region("east", {}), seen_region("west", {}), unseen}),
              HasSubstr("\n2 of 3 regions: 3 rounds, 10,000 tokens, "));
}

TEST(RunTable, ALossMayBeZeroOrLessAndIsADashWhereItIsNotKnown) {
  const auto with = [](const nlohmann::json& loss) {
    return seen_region("east",
                       {{"progress", {{"step", 250}, {"loss", loss}, {"phase", "compute"}}}});
  };
  EXPECT_THAT(run_table({with(0.0)}), HasSubstr("250/1,000  0.0000"));
  EXPECT_THAT(run_table({with(-1.5)}), HasSubstr("250/1,000  -1.5000"));
  EXPECT_THAT(region_page(with(-1.5)), HasSubstr("compute, step 250, loss -1.5\n"));
  EXPECT_THAT(region_page(with(2.53125)), HasSubstr("compute, step 250, loss 2.53125\n"));
  // Before its first step, and where it was NaN.
  EXPECT_THAT(run_table({with(nullptr)}), HasSubstr("250/1,000     -"));
  EXPECT_THAT(region_page(with(nullptr)), HasSubstr("compute, step 250, loss -\n"));
}

// It has taken over the others' state: 900 steps, of which it spent time on few.
TEST(RunTable, ARegionThatCaughtUpDoesNotSayThatTheRunEndsSooner) {
  const nlohmann::json caught_up = {
      {"progress", {{"step", 250}, {"compute_s", 1.0}, {"wait_s", 1.0}, {"phase", "compute"}}}};
  const std::string table = run_table({seen_region("east", {}), seen_region("west", caught_up)});
  EXPECT_THAT(table, HasSubstr("5 min 0 s  compute\nwest"));
  EXPECT_THAT(table, HasSubstr("5 min 0 s  compute\nall"));
}

// What the coordinator says in its log, too.
TEST(RunTable, ShowsTheTimeLeftAsTheRegionsSayIt) {
  const std::string table = run_table(
      {seen_region("east", {{"left_s", 580}}), seen_region("west", {{"left_s", nullptr}})});
  EXPECT_THAT(table, HasSubstr("about 9 min 40 s left"));
  EXPECT_THAT(run_table({seen_region("east", {{"left_s", nullptr}})}), Not(HasSubstr("about")));
}

TEST(RunTable, NamesARegionWhoseWorkersAreAllGone) {
  const nlohmann::json gone = {{"workers", 2}, {"missing_ranks", {0, 1}}};
  EXPECT_THAT(run_table({seen_region("east", gone), seen_region("west", {})}),
              HasSubstr("! east: no worker is attached; start its workers again\n"));
  const nlohmann::json one = {{"workers", 2}, {"missing_ranks", nlohmann::json::array({1})}};
  EXPECT_THAT(run_table({seen_region("east", one)}), Not(HasSubstr("no worker is attached")));
}

TEST(RunTable, NamesARegionWhoseCertificatesRunOut) {
  const auto until = [](double unix_s) {
    return seen_region("east", {{"certificates_until_unix_s", unix_s}});
  };
  EXPECT_THAT(run_table({until(1e9)}), HasSubstr("! east: a certificate that it works with has run "
                                                 "out; coordinator.log"));
  EXPECT_THAT(run_table({until(1e11)}), Not(HasSubstr("certificate")));
}

TEST(RunTable, MarksARegionThatFallsBehind) {
  SeenRegion behind = seen_region("east", {{"version", 181}});
  behind.rounds_behind = 636;
  EXPECT_FALSE(behind.is_well());
  const std::string table = run_table({behind, seen_region("west", {})});
  EXPECT_THAT(table, HasSubstr("FALLS BEHIND: 636 rounds\n"));
  EXPECT_THAT(table, HasSubstr("! east: it lacks 636 rounds"));
}

TEST(RunTable, SaysOfARegionThatFallsBehindWhatIsKnownOfItsWorker) {
  const auto table = [](nlohmann::json status) {
    status["progress"] = {{"phase", "compute"}};
    SeenRegion behind = seen_region("east", status);
    behind.rounds_behind = 636;
    return run_table({behind});
  };
  EXPECT_THAT(table({{"waiting", ""}, {"workers", 1}, {"worker_silent_s", 35}}),
              HasSubstr("no longer counts; its worker has said nothing for 35 s; its last word was "
                        "\"compute\". Somebody stopped it"));
  EXPECT_THAT(table({{"waiting", ""},
                     {"workers", 3},
                     {"missing_ranks", nlohmann::json::array({0})},
                     {"worker_silent_s", 35}}),
              HasSubstr("rank 1 of its 3 workers has said nothing for 35 s"));
  EXPECT_THAT(table({{"waiting", "a majority"}, {"worker_silent_s", 35}}),
              HasSubstr("no longer counts; it waits for a majority\n"));
  EXPECT_THAT(table({{"waiting", ""}, {"worker_silent_s", 9}}), HasSubstr("coordinator.log"));
}

TEST(RunTable, APageSaysHowLongAWorkerHasBeenSilent) {
  const auto page = [](int silent_s) {
    return region_page(seen_region("east", {{"worker_silent_s", silent_s}}));
  };
  EXPECT_THAT(page(35), HasSubstr(", its last word 35 s ago\n"));
  EXPECT_THAT(page(9), Not(HasSubstr("last word")));
}

TEST(RunTable, WhoNoLongerAnswersAfterTheEndHasEnded) {
  SeenRegion over = seen_region("east", {{"finished", true}});
  over.finished = true;
  over.runs = false;
  over.run_is_over = true;
  SeenRegion gone;
  gone.name = "west";
  gone.problem = "connection refused";
  EXPECT_FALSE(gone.is_well());
  gone.run_is_over = true;
  EXPECT_TRUE(gone.is_well());
  const std::string table = run_table({over, gone});
  EXPECT_THAT(table, HasSubstr("ended\n"));
  EXPECT_THAT(table, HasSubstr(", finished"));
  EXPECT_THAT(table, Not(HasSubstr(" tokens/s, "))) << "nobody trains any more";
  EXPECT_THAT(table, Not(HasSubstr("refused")));
}

// Of one that is gone the others know what it paid.
TEST(RunTable, TheCostOfTheRunDoesNotFallWhenARegionDies) {
  const auto paid = [](double cost) {
    const nlohmann::json said = {{"east", 1.5}, {"west", 4.0}};
    return nlohmann::json{{"egress", {{"cost", cost}, {"run_forecast", nullptr}, {"said", said}}}};
  };
  EXPECT_THAT(run_table({seen_region("east", paid(2)), seen_region("west", paid(4.25))}),
              HasSubstr("egress: 6.25 so far, about 25.00 at"));
  SeenRegion gone;
  gone.name = "west";
  gone.problem = "connection refused";
  EXPECT_THAT(run_table({seen_region("east", paid(2)), gone}),
              HasSubstr("egress: 6.00 so far, about 24.00 at"));
}

TEST(RunTable, SaysWhatTrafficHasCostAndWillHave) {
  const auto paid = [](double cost) {
    return nlohmann::json{{"egress", {{"cost", cost}, {"run_forecast", nullptr}}}};
  };
  // A quarter of the steps is done: 250 of 1,000.
  const std::string table =
      run_table({seen_region("east", paid(2)), seen_region("west", paid(0.5))});
  EXPECT_THAT(table, HasSubstr("egress: 2.50 so far, about 10.00 at the end of the run"));
  EXPECT_THAT(run_table({seen_region("east", {{"egress", nullptr}})}), Not(HasSubstr("egress")));
}

// What all regions agreed on says more than the share of the steps.
TEST(RunTable, SaysHowFarABudgetIsUsedUp) {
  const nlohmann::json limit = {
      {"period", "day"}, {"limit", 4.0}, {"spent", 1.5}, {"forecast", 3.75}};
  const nlohmann::json paid = {
      {"egress", {{"cost", 2}, {"run_forecast", 30.0}, {"limits", {limit}}}}};
  EXPECT_THAT(run_table({seen_region("east", paid)}),
              HasSubstr("egress: 2.00 so far, about 30.00 at the end of the run; 1.50 of 4.00 a "
                        "day, about 3.75 at its end\n"));
}

TEST(RunTable, SaysWhoIsStoppedDegradedOrNotSeenAndTheLastError) {
  SeenRegion stopped = seen_region("east", {{"last_error", "refused by west"}});
  stopped.runs = false;
  stopped.written_utc = "2026-01-02T03:04:05Z";
  SeenRegion unseen;
  unseen.name = "asia";
  unseen.problem = "nobody answers";
  const std::string table = run_table({stopped, seen_region("west", {{"degraded", true}}), unseen});
  EXPECT_THAT(table, HasSubstr("STOPPED"));
  EXPECT_THAT(table, HasSubstr("it wrote last at 2026-01-02T03:04:05Z. Start it again"));
  EXPECT_THAT(table, HasSubstr("! east: last error: refused by west"));
  EXPECT_THAT(table, HasSubstr("! west: trains without some of its workers"));
  EXPECT_THAT(table, HasSubstr("! asia: nobody answers"));
  EXPECT_THAT(table, HasSubstr("1,200 tokens/s"));  // what is stopped makes none
}

TEST(RunTable, SaysWhatTheOthersKnowOfOneThatNobodyCanAsk) {
  SeenRegion behind_nat = unseen_region("asia", "it has no address");
  behind_nat.undialled = true;
  std::vector<SeenRegion> regions = {seen_region("eu", {{"links", {{"asia", {{"up", true}}}}}}),
                                     seen_region("us", {{"links", {{"asia", {{"up", false}}}}}}),
                                     behind_nat};
  note_what_others_say(regions);
  EXPECT_THAT(run_table(regions), AllOf(HasSubstr("linked to eu\n"), Not(HasSubstr("!"))));
  EXPECT_TRUE(regions[2].is_well());

  regions = {seen_region("us", {{"links", {{"asia", {{"up", false}}}}}}), behind_nat};
  note_what_others_say(regions);
  EXPECT_THAT(run_table(regions), AllOf(HasSubstr("NOT SEEN"), HasSubstr("! asia: it has no")));
  EXPECT_FALSE(regions[1].is_well());
}

// A link shows nothing of one that should answer: its coordinator may hang.
TEST(RunTable, WhoHasAnAddressMustAnswerThere) {
  std::vector<SeenRegion> regions = {seen_region("eu", {{"links", {{"asia", {{"up", true}}}}}}),
                                     unseen_region("asia", "no answer")};
  note_what_others_say(regions);
  EXPECT_THAT(run_table(regions), HasSubstr("NOT SEEN"));
  EXPECT_FALSE(regions[1].is_well());
}

TEST(RunTable, OneThatWasRemovedIsNotMissed) {
  std::vector<SeenRegion> regions = {
      seen_region("eu", {{"removed_links", {{"asia", {{"tx_bytes", 1}}}}}}),
      unseen_region("asia", "Connection refused")};
  note_what_others_say(regions);
  EXPECT_THAT(run_table(regions), AllOf(HasSubstr("removed from the run"), Not(HasSubstr("!"))));
  EXPECT_TRUE(regions[1].is_well());
}

// It came back and the one that says so is cut off, or lies.
TEST(RunTable, WhoIsAMemberAsAnotherSaysIsMissed) {
  const SeenRegion says_so = seen_region("eu", {{"removed_links", {{"asia", {{"tx_bytes", 1}}}}}});
  const SeenRegion knows = seen_region("us", {{"links", {{"asia", {{"up", false}}}}}});
  std::vector<SeenRegion> regions = {knows, says_so, unseen_region("asia", "Connection refused")};
  for (int order = 0; order < 2; ++order) {
    note_what_others_say(regions);
    EXPECT_THAT(run_table(regions), AllOf(HasSubstr("NOT SEEN"), HasSubstr("! asia: Connection")));
    EXPECT_FALSE(regions[2].is_well());
    regions = {says_so, knows, unseen_region("asia", "Connection refused")};
  }
}

TEST(RunTable, SaysOnceWhatKeepsAllFromBeingSeen) {
  const std::string table = run_table({unseen_region("eu", "--as NAME is needed"),
                                       unseen_region("us", "--as NAME is needed"),
                                       unseen_region("asia", "it has no address")});
  EXPECT_THAT(table, HasSubstr("! eu, us: --as NAME is needed\n! asia: it has no address\n"));
}

TEST(RunTable, APageOfARegionThatWaitsForItsRunHasNoGaps) {
  const std::string page =
      region_page(seen_region("eu", {{"run_id", ""}, {"progress", {{"phase", ""}, {"step", 0}}}}));
  EXPECT_THAT(page, AllOf(HasSubstr("eu of a run that it does not know yet\n"),
                          HasSubstr("worker: nothing heard yet, step 0")));
}

TEST(RunTable, HasTheLinksOfThoseThatRun) {
  const nlohmann::json links = {
      {"west",
       {{"up", false},
        {"round_trip_ms", 80.25},
        {"rate_mbit_s", 95.5},
        {"loss", 0.001},
        {"tx_bytes", 1000}}},
      {"asia", {{"up", false}, {"via", "west"}, {"round_trip_ms", 9.5}}},
      {"islands", {{"up", true}, {"via", "west"}, {"round_trip_ms", 4400}, {"rate_mbit_s", 0.031}}},
      {"north", {{"up", true}, {"round_trip_ms", 0}}},
      {"south", {{"up", true}, {"round_trip_ms", 80.25}, {"rate_mbit_s", 95.5}, {"loss", 0.001}}}};
  SeenRegion stopped = seen_region("west", {{"links", {{"east", {{"up", true}}}}}});
  stopped.runs = false;
  const std::string table = run_table({seen_region("east", {{"links", links}}), stopped});
  EXPECT_THAT(table, testing::ContainsRegex("east > south +up +80.[23] ms +95.5 Mbit/s +0.10 %"));
  EXPECT_THAT(table,
              testing::ContainsRegex("east > islands +up, messages by way of west +4400.0 ms "
                                     "+0.031 Mbit/s +0.00 %"));
  EXPECT_THAT(table, testing::ContainsRegex("east > north +up +- +- +0.00 %"))
      << "it was not measured yet";
  const char* as_it_was = "east > west +DOWN +- +- +- +1.00 kB";
  EXPECT_THAT(table, testing::ContainsRegex(as_it_was)) << "before it went down";
  EXPECT_THAT(table, testing::ContainsRegex("east > asia +by way of west +- +- +- "));
  EXPECT_THAT(table, Not(HasSubstr("west > east")));
}

TEST(RunTable, WhatIsDamagedOrHostileIsNotPrintedAsItIs) {
  SeenRegion odd =
      seen_region("east", {{"waiting", "\x1b[2J"}, {"links", 5}, {"progress", "none"}});
  SeenRegion broken;
  broken.name = "west";
  broken.text = "[1, 2";
  broken.runs = true;
  const std::string table = run_table({odd, broken});
  EXPECT_THAT(table, Not(HasSubstr("\x1b")));
  EXPECT_NO_THROW(region_page(odd));
}

TEST(RunTable, AsJsonEachStatusIsWhatTheCoordinatorWrote) {
  SeenRegion unseen;
  unseen.name = "asia";
  unseen.problem = "nobody answers";
  const auto json = nlohmann::json::parse(run_json({seen_region("east", {}), unseen}));
  EXPECT_EQ(json["regions"][0]["status"]["progress"]["step"], 250);
  EXPECT_TRUE(json["regions"][1]["status"].is_null());
  EXPECT_EQ(json["regions"][1]["problem"], "nobody answers");
}

}  // namespace
}  // namespace causeway::run
