#include "apps/run/report/run_report.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"
#include "apps/run/report/thinned_rounds.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::json;

Json round_event(const std::string& region, int round, const std::string& state) {
  return {{"round", round},      {"region", region},        {"participants", {"east", "west"}},
          {"state", state},      {"step", 10 * round + 10}, {"loss", 5.0 - round},
          {"val_loss", 4.75},    {"wan_tx_bytes", 1000},    {"time_unix_s", 1e9 + 60.0 * round},
          {"tokens_per_s", 100}, {"listed", true}};
}

// Two regions of a run of three rounds, as coordinators and workers leave them.
class RunReportTest : public testing::Test {
 protected:
  RegionHistory history(const std::string& region, const std::string& last_state = "s2",
                        bool finished = true) {
    std::string events;
    for (int round = 0; round < 3; ++round)
      events += round_event(region, round, round < 2 ? "same" : last_state).dump() + "\n";
    events += Json{{"event", "k_changed"}, {"region", region}, {"round", 1},
                   {"from", 10},           {"k", 20},          {"text", "the exchange takes long"}}
                  .dump() +
              "\n";
    directory_.write(region + "/events.jsonl", events + "{\"half");
    directory_.write(region + "/status.json",
                     Json{{"region", region},
                          {"run_id", "r1"},
                          {"version", 3},
                          {"k", 20},
                          {"steps", 30},
                          {"finished", finished},
                          {"waiting", finished ? "" : "west"},
                          {"egress", {{"cost", 0.00034}}},
                          {"progress", {{"step", 30}, {"loss", 3.0}, {"val_loss", 4.5}}}}
                         .dump());
    return read_region_history(directory_ / region);
  }
  void end_well(const std::string& region, const std::string& parameters) {
    diloco::Progress end;
    end.set_step(30);
    end.set_tokens(300);
    end.set_round(3);
    end.set_val_loss(4.25);
    end.set_compute_s(3);
    end.set_wait_s(1);
    intra::write_result(directory_ / region,
                        {.progress = end, .run_steps = 30, .params_digest = parameters});
  }
  TemporaryDirectory directory_;
};

TEST_F(RunReportTest, EventsThatCannotBeReadAreNotAShorterRun) {
  history("east");
  const auto file = directory_ / "east/events.jsonl";
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_THROW(read_region_history(directory_ / "east"), std::system_error);
}

TEST_F(RunReportTest, TellsWhatTheRegionsLeft) {
  history("east");
  history("west");
  end_well("east", "abc");
  end_well("west", "abc");
  const std::string html = run_report(
      {read_region_history(directory_ / "east"), read_region_history(directory_ / "west")});
  for (const char* shown :
       {"Run r1", "The run is over: 3 rounds", "K = 20", "2 min 0 s", "same bits", "and at the end",
        "4.2500", "75.0 %", "0.00068", "10 to 20", "the exchange takes long",
        "aria-label=\"Training loss", "aria-label=\"Validation loss", "</html>"})
    EXPECT_THAT(html, HasSubstr(shown));
  for (const char* reference : {"http:", "https:", "src=", "href=", "url("})
    EXPECT_THAT(html, Not(HasSubstr(reference)));
}

TEST(ReportCharts, ShowALossThatIsZeroOrLess) {
  std::vector<Sample> samples;
  for (std::uint64_t step = 1; step <= 3; ++step)
    samples.push_back({.time_s = double(step),
                       .region = "east",
                       .step = step,
                       .loss = 1.0 - double(step),
                       .val_loss = -double(step)});
  const std::string charts = report_charts(samples, "nats");
  EXPECT_THAT(charts, HasSubstr("aria-label=\"Training loss"));
  EXPECT_THAT(charts, HasSubstr("aria-label=\"Validation loss"));
  for (Sample& sample : samples) sample.loss = sample.val_loss = std::nullopt;
  EXPECT_THAT(report_charts(samples, "nats"), Not(HasSubstr("loss")));
}

TEST_F(RunReportTest, SaysWhereRegionsDiffer) {
  EXPECT_THAT(run_report({history("east"), history("west", "other")}),
              HasSubstr("The regions differ: west has another state after round 2"));
  history("east");
  history("west");
  end_well("east", "abc");
  end_well("west", "abd");
  EXPECT_THAT(run_report({read_region_history(directory_ / "east"),
                          read_region_history(directory_ / "west")}),
              HasSubstr("west ended with other parameters"));
}

TEST_F(RunReportTest, ARoundThatWasAppliedAgainCountsAsItWasTheLastTime) {
  const RegionHistory east = history("east");
  history("west", "before");
  std::ofstream(directory_ / "west/events.jsonl", std::ios::app)
      << "\n"
      << round_event("west", 2, "s2").dump() << "\n";
  EXPECT_THAT(run_report({east, read_region_history(directory_ / "west")}),
              HasSubstr("These regions hold the same bits"));
}

// Of a run of months more rounds than fit into memory, and than a screen can show.
TEST_F(RunReportTest, OfManyRoundsItKeepsSomeAndComparesAll) {
  constexpr std::uint64_t kRounds = 50'000;
  for (const char* const region : {"east", "west"}) {
    history(region);
    std::string events;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::string state = round == 777 && region == std::string("west") ? "other" : "same";
      events += R"({"round": )" + std::to_string(round) + R"(, "participants": [], "state": ")" +
                state + "\"" + (round == 2001 ? R"(, "val_loss": 4.75)" : "") + "}\n";
    }
    directory_.write(region + std::string("/events.jsonl"), events);
  }
  const RegionHistory east = read_region_history(directory_ / "east");
  EXPECT_LE(east.rounds.size(), ThinnedRounds::kKeptMax);
  EXPECT_GE(east.rounds.size(), ThinnedRounds::kKeptMax / 2);
  EXPECT_EQ(east.rounds.front().round, 0);
  EXPECT_EQ(east.rounds.back().round, kRounds - 1);
  std::uint64_t longest = 0;
  for (std::size_t i = 1; i < east.rounds.size(); ++i)
    longest = std::max(longest, east.rounds[i].round - east.rounds[i - 1].round);
  EXPECT_EQ(longest, 4);
  EXPECT_EQ(std::ranges::count_if(
                east.rounds, [](const LoggedRound& round) { return round.val_loss.has_value(); }),
            1)
      << "a validation stays, whatever its round";
  const std::string html = run_report({east});
  EXPECT_THAT(html, HasSubstr("50,000"));
  EXPECT_THAT(run_report({east, read_region_history(directory_ / "west")}),
              HasSubstr("The regions differ: west has another state after round 777"));
}

TEST_F(RunReportTest, OfOneRegionClaimsNothingOfTheOthers) {
  RegionHistory east = history("east", "s2", false);
  east.runs = true;
  const std::string html = run_report({east});
  EXPECT_THAT(html, Not(HasSubstr("same bits")));
  EXPECT_THAT(html, HasSubstr("The run is not over"));
  EXPECT_THAT(html, HasSubstr("waits for west"));
  EXPECT_THAT(html, HasSubstr("4.5000")) << "of the newest validation";
}

TEST_F(RunReportTest, OfARegionThatWasStoppedItSaysSo) {
  const std::string html = run_report({history("east", "s2", false)});
  EXPECT_THAT(html, HasSubstr("not running here"));
  EXPECT_THAT(html, Not(HasSubstr("waits for west"))) << "it said that while it ran";
}

TEST_F(RunReportTest, ADirectoryWithoutARegionIsRefusedByName) {
  try {
    read_region_history(directory_.path());
    FAIL() << "it was taken";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no status.json"));
  }
}

}  // namespace
}  // namespace causeway::run
