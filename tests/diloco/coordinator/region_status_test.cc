#include "diloco/coordinator/region_status.h"

#include <chrono>
#include <filesystem>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "diloco/coordinator/status_files.h"
#include "inter/base/file.h"
#include "tests/support/process_limits.h"
#include "tests/support/temporary_directory.h"

namespace causeway::diloco {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Everything has another value than in an empty one.
RegionStatus full() {
  RegionStatus status;
  status.region = "east";
  status.pid = 4711;
  status.run_id = "run";
  status.settings_sha256 = "ab";
  status.version = 7;
  status.round = 9;
  status.workers = 3;
  status.missing_ranks = {1, 2};
  status.degraded = true;
  status.listening_port = 65'535;
  status.waiting = "west";
  status.abstains = true;
  status.leader = "west";
  status.term = 5;
  status.share = {.index = 1, .count = 3, .pass = 2, .begin = 1000};
  status.data = DataStatus{.whole = "cd", .sample = "ef"};
  status.steps = 1'000'000'000'000;
  status.k = 20;
  status.k_change = "from 10 to 20";
  status.progress.set_step(140);
  status.progress.set_loss(2.5);
  status.progress.set_val_loss(2.75);
  status.progress.set_mfu(0.5);
  status.progress.set_phase("wait");
  status.loss_not_finite = true;
  status.reported_unix_s = 1.25e9;
  status.worker_silent_s = 35;
  status.wan_tx_bytes = 10;
  status.wan_rx_bytes = 20;
  status.links["west"] = {.up = true,
                          .via = "asia",
                          .tx_bytes = 1,
                          .rx_bytes = 2,
                          .round_trip_ms = 70.123,
                          .connects = 3,
                          .data_connections = 4,
                          .rate_mbit_s = 95.5,
                          .rate_p50_mbit_s = 90.25,
                          .rate_p05_mbit_s = 10.5,
                          .stream_rate_mbit_s = 50.125,
                          .loss = 0.001};
  status.removed_links["south"] = {.tx_bytes = 4, .rx_bytes = 5, .connects = 6};
  status.egress =
      EgressStatus{.cost = 1.5,
                   .run_cost = 4.5,
                   .said = {{"west", 3.0}},
                   .run_forecast = 6.5,
                   .limits = {{"day", 4, 1.5, 3.75, 0.25, 1e9}, {"run", 40, 1.5, 8, 0.25, 0}},
                   .pauses = true};
  status.spool_bytes = 100;
  status.spool_capacity_bytes = 200;
  status.rounds_kept = 8;
  status.falls_behind = true;
  status.applied_unix_s = 1.5e9;
  status.left_s = 580;
  status.certificates_until_unix_s = 1.75e9;
  status.last_error = "refused";
  status.finished = true;
  return status;
}

std::vector<std::string> keys_of(const OrderedJson& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(RegionStatus, TheFirstRankThatIsThereSpeaks) {
  EXPECT_EQ(speaker_of(1, {}), "its worker");
  EXPECT_EQ(speaker_of(3, {}), "rank 0 of its 3 workers");
  EXPECT_EQ(speaker_of(3, {2, 0}), "rank 1 of its 3 workers");
}

// A region that lies says so of itself, to who asks for its status.
TEST(RegionStatus, VeryManyMissingRanksHoldNobodyUp) {
  std::vector<std::uint32_t> missing(1'000'000);
  std::iota(missing.begin(), missing.end(), 0);
  EXPECT_EQ(speaker_of(2, missing), "rank 1000000 of its 2 workers");
}

// Programs of users read them.
TEST(RegionStatus, HasItsKeysInTheirOrder) {
  const OrderedJson json = to_json(full());
  EXPECT_THAT(keys_of(json),
              testing::ElementsAre(
                  "region", "format", "xxh3", "pid", "run_id", "settings_sha256", "version",
                  "round", "workers", "missing_ranks", "degraded", "listening_port", "waiting",
                  "abstains", "leader", "term", "share", "data", "steps", "k", "k_change",
                  "progress", "loss_not_finite", "reported_unix_s", "worker_silent_s",
                  "wan_tx_bytes", "wan_rx_bytes", "links", "removed_links", "egress", "spool_bytes",
                  "spool_capacity_bytes", "rounds_kept", "falls_behind", "applied_unix_s", "left_s",
                  "certificates_until_unix_s", "last_error", "finished"));
  EXPECT_THAT(keys_of(json["links"]["west"]),
              testing::ElementsAre("up", "via", "tx_bytes", "rx_bytes", "round_trip_ms", "connects",
                                   "data_connections", "rate_mbit_s", "rate_p50_mbit_s",
                                   "rate_p05_mbit_s", "stream_rate_mbit_s", "loss"));
  EXPECT_EQ(json["removed_links"].dump(), R"({"south":{"tx_bytes":4,"rx_bytes":5,"connects":6}})");
  EXPECT_EQ(json["egress"].dump(),
            R"({"cost":1.5,"run_cost":4.5,"said":{"west":3.0},"run_forecast":6.5,"limits":[)"
            R"({"period":"day","limit":4.0,"spent":1.5,"forecast":3.75,"round_cost":0.25,)"
            R"("until_unix_s":1000000000.0},{"period":"run","limit":40.0,"spent":1.5,)"
            R"("forecast":8.0,"round_cost":0.25,"until_unix_s":0.0}],"pauses":true})");
  EXPECT_EQ(json["data"].dump(), R"({"sha256":"cd","sample_sha256":"ef"})");
  EXPECT_EQ(json["share"].dump(), R"({"index":1,"count":3,"pass":2,"begin":1000})");
}

TEST(RegionStatus, ALossThatIsNotKnownIsNull) {
  RegionStatus status = full();
  status.progress.clear_loss();
  EXPECT_TRUE(to_json(status)["progress"]["loss"].is_null());
  status.progress.set_loss(0);
  EXPECT_EQ(to_json(status)["progress"]["loss"], 0.0);
}

// It is no link any more, and what it carried was sent all the same.
TEST(RegionStatus, WhatWasSentToARemovedRegionStaysInTheTotals) {
  const test::TemporaryDirectory directory;
  const auto shown = [&](const RegionStatus& status) {  // each by a process of its own
    StatusFiles(directory.path(), "east").write(status);
    const auto file = directory.path() / "status.json";
    return parse_region_status(inter::read_regular_file(file, 1 << 20)).value();
  };
  RegionStatus first;
  first.links["west"] = {.tx_bytes = 10, .rx_bytes = 20, .connects = 1};
  first.links["asia"] = {.tx_bytes = 5, .rx_bytes = 6, .connects = 2};
  EXPECT_EQ(shown(first).wan_tx_bytes, 15U);

  RegionStatus removed;
  removed.links["west"] = {.tx_bytes = 1};
  removed.removed_links["asia"] = {.tx_bytes = 2, .rx_bytes = 1, .connects = 1};
  RegionStatus never_met;
  never_met.links["west"] = {};
  for (const RegionStatus& status : {removed, never_met}) {
    const RegionStatus now = shown(status);
    EXPECT_EQ(now.wan_tx_bytes, 18U);
    EXPECT_EQ(now.wan_rx_bytes, 27U);
    EXPECT_EQ(now.links.size(), 1U) << "no link that is down for ever";
    EXPECT_EQ(now.removed_links.at("asia").tx_bytes, 7U);
    EXPECT_EQ(now.removed_links.at("asia").connects, 3U);
  }

  RegionStatus returned;
  returned.links["asia"] = {.up = true, .tx_bytes = 1};
  returned.links["west"] = {};
  const RegionStatus now = shown(returned);
  EXPECT_EQ(now.wan_tx_bytes, 19U);
  EXPECT_EQ(now.links.at("asia").tx_bytes, 8U);
  EXPECT_TRUE(now.removed_links.empty());
}

// Totals of a run must not fall because its coordinator was started again.
TEST(RegionStatus, AWorkerThatHasNotReportedYetIsShownAsItWasSeenBefore) {
  const test::TemporaryDirectory directory;
  const auto shown = [&](const RegionStatus& status) {  // each by a process of its own
    StatusFiles(directory.path(), "east").write(status);
    const auto file = directory.path() / "status.json";
    return parse_region_status(inter::read_regular_file(file, 1 << 20)).value();
  };
  RegionStatus status;
  status.workers = 1;
  status.progress.set_phase("compute");
  status.progress.set_step(1909);
  status.progress.set_compute_s(12.5);
  status.progress.set_tokens_per_s(633);
  shown(status);
  RegionStatus begun;
  begun.workers = 1;
  begun.missing_ranks = {0};
  for (int times = 0; times < 2; ++times) {
    const RegionStatus now = shown(begun);
    EXPECT_EQ(now.progress.step(), 1909U);
    EXPECT_EQ(now.progress.compute_s(), 12.5);
    EXPECT_EQ(now.progress.tokens_per_s(), 0) << "nobody works";
  }
  status.progress.set_step(1920);
  EXPECT_EQ(shown(status).progress.step(), 1920U);
  EXPECT_EQ(shown(status).progress.tokens_per_s(), 633);
}

TEST(RegionStatus, WhoseWorkersAreAllGoneHasNoRateAndNoTimeLeft) {
  const test::TemporaryDirectory directory;
  StatusFiles files(directory.path(), "east");
  RegionStatus status;
  status.workers = 2;
  status.steps = 1000;
  status.progress.set_phase("compute");
  status.progress.set_tokens_per_s(633);
  for (Round round = 0; round < 3; ++round) {
    AppliedRound applied;
    applied.record.round = status.round = round;
    applied.steps_so_far = 20 * (round + 1);
    files.add_round(applied, status);
  }
  const auto shown = [&] { return parse_region_status(files.text(status)).value(); };
  status.missing_ranks = {1};
  EXPECT_FALSE(status.lacks_workers());
  EXPECT_EQ(shown().progress.tokens_per_s(), 633);
  EXPECT_TRUE(shown().left_s);
  status.missing_ranks = {0, 1};
  EXPECT_TRUE(status.lacks_workers());
  EXPECT_EQ(shown().progress.tokens_per_s(), 0);
  EXPECT_FALSE(shown().left_s);
}

// Begun anew in the directory of another run, whose ledger was removed.
TEST(RegionStatus, WhatAnotherRunWroteIsNotOfThisOne) {
  const test::TemporaryDirectory directory;
  RegionStatus status = full();
  status.progress.set_phase("done");
  StatusFiles(directory.path(), "east", "run").write(status);
  const auto file = directory.path() / "status.json";
  const std::string written = inter::read_regular_file(file, 1 << 20);
  const auto sent = [&](const StatusFiles& files) {
    return parse_region_status(files.text(RegionStatus{})).value().wan_tx_bytes;
  };
  const StatusFiles same(directory.path(), "east", "run");
  EXPECT_EQ(same.earlier_phase(), "done");
  EXPECT_EQ(same.earlier_egress_cost(), 1.5);
  EXPECT_GT(sent(same), 0U);
  for (const char* run_id : {"another", ""}) {  // empty: one that joins does not know it yet
    const StatusFiles files(directory.path(), "east", run_id);
    EXPECT_EQ(files.earlier_phase(), "");
    EXPECT_EQ(files.earlier_egress_cost(), 0);
    EXPECT_TRUE(files.earlier_egress_said().empty());
    EXPECT_EQ(sent(files), 0U);
  }
  EXPECT_EQ(inter::read_regular_file(file, 1 << 20), written);
}

TEST(RegionStatus, TheNewestRoundIsFoundBehindALongTimeOfOtherEvents) {
  const test::TemporaryDirectory directory;
  append_to_file(directory.path() / "events.jsonl", R"({"round": 41, "participants": ["east"]})"
                                                    "\n");
  StatusFiles files(directory.path(), "east");
  EXPECT_EQ(files.next_round(), 42);
  for (int i = 0; i < 10; ++i) files.add_event("peer_down", "west", std::string(100'000, 'x'), 42);
  EXPECT_EQ(StatusFiles(directory.path(), "east").next_round(), 42);
}

// Otherwise a region in which nothing moves looks like one whose coordinator hangs.
TEST(RegionStatus, TheFilesTimeGoesOnWhereNothingChanges) {
  const test::TemporaryDirectory directory;
  const auto file = directory.path() / "status.json";
  StatusFiles files(directory.path(), "east");
  files.write(full());
  const auto earlier = std::filesystem::last_write_time(file) - std::chrono::hours(1);
  std::filesystem::last_write_time(file, earlier);
  files.write(full());
  EXPECT_GT(std::filesystem::last_write_time(file), earlier);
  {
    const test::NoMoreFiles none;
    EXPECT_NO_THROW(files.write(full())) << "that needs no file";
  }
  std::filesystem::remove(file);
  EXPECT_NO_THROW(files.write(full()));
}

TEST(RegionStatus, TakesTheReserveIfTheDiskIsFull) {
  const test::TemporaryDirectory directory;
  const auto file = directory.path() / "status.json";
  const auto reserve = directory.path() / "status.json.reserve";
  StatusFiles files(directory.path(), "east");
  EXPECT_GT(file_size(reserve), 50'000);
  RegionStatus status = full();
  const auto waiting_in_file = [&] {
    const auto read = parse_region_status(inter::read_regular_file(file, 1 << 20));
    return read ? read->waiting : "damaged";
  };
  const auto other_name = directory.path() / "other";
  for (const std::size_t letters : {300, 2, 100}) {  // also where it becomes shorter
    create_hard_link(reserve, other_name);
    status.waiting = std::string(letters, 'w');
    files.write_into_reserve(status);
    EXPECT_EQ(waiting_in_file(), status.waiting);
    EXPECT_TRUE(equivalent(file, other_name)) << "no other file was made";
    std::filesystem::remove(other_name);
  }
  EXPECT_TRUE(exists(reserve)) << "what was shown before";
  std::filesystem::remove(reserve);
  status.waiting = "again";
  EXPECT_THROW(files.write_into_reserve(status), std::system_error);
  EXPECT_EQ(waiting_in_file(), std::string(100, 'w')) << "what cannot be shown damages nothing";
}

TEST(RegionStatus, TakesTheReserveIfNoFileCanBeOpened) {
  const test::TemporaryDirectory directory;
  StatusFiles files(directory.path(), "east");
  RegionStatus status = full();
  {
    const test::NoMoreFiles none;
    EXPECT_THROW(files.write(status), std::system_error);
    for (const char* what : {"one", "another"}) {
      status.waiting = what;
      files.write_into_reserve(status);
    }
  }
  const auto shown = inter::read_regular_file(directory.path() / "status.json", 1 << 20);
  EXPECT_EQ(parse_region_status(shown)->waiting, "another");
}

TEST(RegionStatus, WhatIsNotKnownIsNull) {
  const OrderedJson json = to_json(RegionStatus{});
  for (const char* key : {"data", "egress", "applied_unix_s", "left_s", "reported_unix_s",
                          "certificates_until_unix_s"})
    EXPECT_TRUE(json.at(key).is_null()) << key;
  EXPECT_EQ(json["links"].dump(), "{}");
  EXPECT_EQ(json["removed_links"].dump(), "{}");
  EXPECT_EQ(json["missing_ranks"].dump(), "[]");
  EXPECT_TRUE(json["progress"]["val_loss"].is_null());
}

TEST(RegionStatus, ComesBackAsItWasWritten) {
  const std::string text = to_json(full()).dump();
  const auto read = parse_region_status(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(to_json(*read).dump(), text);
  EXPECT_EQ(read->state(), "waits for west");
}

TEST(RegionStatus, WhatIsOfAnotherTypeReadsAsNothing) {
  EXPECT_FALSE(parse_region_status("{\"version\": "));
  EXPECT_FALSE(parse_region_status("[1]"));
  const auto status = parse_region_status(R"({
      "region": 5, "version": "seven", "round": -1, "listening_port": 65536, "progress": 3,
      "links": {"west": 1, "asia": {"up": "yes", "tx_bytes": 7}}, "missing_ranks": [1, "two"],
      "egress": {"cost": null, "said": {"west": "much"}, "limits": [5]}, "left_s": null})");
  ASSERT_TRUE(status);
  EXPECT_EQ(status->region, "");
  EXPECT_EQ(status->version, 0U);
  EXPECT_EQ(status->round, 0U);
  EXPECT_EQ(status->listening_port, 0);
  EXPECT_EQ(status->links.size(), 1U);
  EXPECT_FALSE(status->links.at("asia").up);
  EXPECT_EQ(status->links.at("asia").tx_bytes, 7U);
  EXPECT_THAT(status->missing_ranks, testing::ElementsAre(1));
  ASSERT_TRUE(status->egress);
  EXPECT_TRUE(status->egress->said.empty());
  EXPECT_TRUE(status->egress->limits.empty());
  EXPECT_FALSE(status->left_s);
}

// 20 s for 100 of 400 steps.
TEST(RegionStatus, TheTimeLeftOfEarlierVersionsFollowsFromTheirTimes) {
  const std::string text =
      R"({"steps": 400, "progress": {"step": 100, "compute_s": 15, "wait_s": 5}})";
  EXPECT_EQ(parse_region_status(text)->left_s, 60);
  EXPECT_FALSE(parse_region_status(R"({"steps": 400, "progress": {"step": 0}})")->left_s);
}

}  // namespace
}  // namespace causeway::diloco
