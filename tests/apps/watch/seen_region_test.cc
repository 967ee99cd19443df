#include "apps/run/watch/seen_region.h"

#include <chrono>
#include <filesystem>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"
#include "apps/run/watch/run_table.h"
#include "diloco/files/file_io.h"
#include "tests/apps/temporary.h"
#include "tests/apps/watch/seen_region_fixture.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using testing::Not;

// A region that is cut off believes that it knows the newest round.
TEST(SeenRegions, AreComparedByTheirRounds) {
  const auto at = [](std::uint64_t version, double applied) {
    return nlohmann::json{
        {"version", version}, {"round", version}, {"rounds_kept", 8}, {"applied_unix_s", applied}};
  };
  std::vector<SeenRegion> regions = {
      seen_region("east", at(100, 1000)), seen_region("west", at(91, 980)),
      seen_region("north", at(91, 999)), seen_region("south", at(92, 980)),
      seen_region("new", at(0, 0))};
  regions[4].text.replace(regions[4].text.find("\"applied_unix_s\":0.0"), 20,
                          "\"applied_unix_s\":null");
  compare_rounds(regions);
  EXPECT_TRUE(regions[0].is_well());
  EXPECT_EQ(regions[1].rounds_behind, 9);
  EXPECT_TRUE(regions[2].is_well()) << "it was asked a moment earlier";
  EXPECT_TRUE(regions[3].is_well());
  EXPECT_EQ(regions[4].rounds_behind, 100);
  EXPECT_THAT(run_table(regions), HasSubstr("FALLS BEHIND: 9 rounds"));
}

// Three directories of a run: two have finished, and the third was cut off before.
class RegionsAtTheEnd : public testing::Test {
 protected:
  static SeenRegion ended(const std::string& name) {
    SeenRegion region = seen_region(
        name,
        {{"run_id", "r"}, {"version", 30}, {"round", 30}, {"finished", true}, {"left_s", nullptr}});
    region.finished = true;
    region.runs = false;
    return region;
  }
  static SeenRegion cut_off(const nlohmann::json& more = {}) {
    nlohmann::json status = {{"run_id", "r"},
                             {"version", 26},
                             {"round", 26},
                             {"left_s", 3.6},
                             {"waiting", "a majority of the regions to agree on a leader"},
                             {"links", {{"us", {{"up", false}}}, {"eu", {{"up", false}}}}}};
    if (more.is_object()) status.update(more);
    return seen_region("asia", status);
  }
  const SeenRegion& asia() {
    note_missed_ends(regions_);
    return regions_[2];
  }

  std::vector<SeenRegion> regions_ = {ended("us"), ended("eu"), cut_off()};
};

TEST_F(RegionsAtTheEnd, NameOneThatNobodyCanTell) {
  EXPECT_EQ(asia().rounds_missed, 4U);
  EXPECT_FALSE(asia().is_well());
  EXPECT_TRUE(regions_[0].is_well());
  const std::string table = run_table(regions_);
  EXPECT_THAT(table, HasSubstr("MISSED THE END\n"));
  EXPECT_THAT(
      table,
      HasSubstr(
          "! asia: the run is over, but this region lacks 4 of its rounds, and no process that has "
          "them runs any more. Start the coordinator of us again until asia has finished"));
  EXPECT_THAT(table, Not(HasSubstr(" left\n")));
  EXPECT_THAT(table, Not(HasSubstr("3.6 s")));
  EXPECT_THAT(run_json(regions_), HasSubstr("\"rounds_missed\": 4"));
}

// They end one after the other.
TEST_F(RegionsAtTheEnd, NameNoneWhileOneRunsThatKnowsTheEnd) {
  regions_[0].runs = true;
  EXPECT_FALSE(asia().missed_end()) << "it has finished, and is there for some seconds";
  regions_[0] = cut_off({{"version", 29}, {"round", 30}, {"waiting", ""}});
  EXPECT_FALSE(asia().missed_end()) << "it has not finished yet, and has all records";
  regions_[0].hangs = true;
  EXPECT_TRUE(asia().missed_end());
}

TEST_F(RegionsAtTheEnd, NameNoneThatHasAllAndOnlyAppliesIt) {
  regions_[2] = cut_off({{"version", 29}, {"round", 30}, {"waiting", ""}});
  EXPECT_FALSE(asia().missed_end());
  EXPECT_TRUE(asia().is_well());
  regions_[2] = cut_off({{"version", 29}, {"round", 30}, {"waiting", "payloads from round 29 on"}});
  EXPECT_TRUE(asia().missed_end());
}

TEST_F(RegionsAtTheEnd, NameOneWhoseCoordinatorIsGoneToo) {
  regions_[2].runs = false;
  EXPECT_FALSE(asia().is_well());
  EXPECT_THAT(run_table(regions_),
              HasSubstr("Start its own coordinator and the coordinator of us"));
}

TEST_F(RegionsAtTheEnd, NameAsManyAsTheMembersNeedToAgree) {
  regions_[2] =
      cut_off(nlohmann::json::parse(R"({"links": {"us": {}, "eu": {}, "b": {}, "c": {}}})"));
  EXPECT_THAT(asia().to_start, testing::ElementsAre("us", "eu"));
  EXPECT_THAT(run_table(regions_), HasSubstr("Start the coordinators of us, eu again"));
}

TEST_F(RegionsAtTheEnd, NameNoneOfAnotherRunAndNoneWhereOneIsNotSeen) {
  regions_[2] = cut_off({{"run_id", "another"}});
  EXPECT_FALSE(asia().missed_end());
  regions_[2] = cut_off();
  SeenRegion unseen;
  unseen.name = "b";
  unseen.problem = "nobody answers";
  regions_.push_back(unseen);
  EXPECT_FALSE(asia().missed_end()) << "b may know the end";
  note_who_ended(regions_);
  EXPECT_TRUE(regions_[3].is_well());
  EXPECT_TRUE(asia().missed_end());
}

// Its directory says that it did not finish.
TEST_F(RegionsAtTheEnd, TakeOneThatStoppedBeforeForNoneThatEnded) {
  regions_[2].runs = false;
  note_who_ended(regions_);
  EXPECT_FALSE(regions_[2].run_is_over);
  EXPECT_FALSE(asia().is_well());
}

TEST(LookAtDirectory, SaysThatNobodyRunsWhereNobodyHoldsTheLock) {
  const TemporaryDirectory directory;
  EXPECT_THROW(look_at_directory(directory.path()), ConfigError);
  directory.write("status.json", "[]");
  EXPECT_THROW(look_at_directory(directory.path()), ConfigError);
  directory.write("status.json", R"({"region": "east", "finished": false})");
  const SeenRegion seen = look_at_directory(directory.path());
  EXPECT_EQ(seen.name, "east");
  EXPECT_FALSE(seen.runs);
  EXPECT_FALSE(seen.is_well());
  EXPECT_THAT(seen.written_utc, testing::EndsWith("Z"));
  EXPECT_THAT(region_page(seen), HasSubstr("stopped: no coordinator runs here"));
}

TEST(LookAtDirectory, NamesAStatusThatCannotBeRead) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory / "status.json");
  try {
    look_at_directory(directory.path());
    ADD_FAILURE() << "a directory was read";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr((directory / "status.json").string()));
  }
}

class DirectoryOfARegion : public testing::Test {
 protected:
  void SetUp() override { lock_ = diloco::lock_file(directory_.write("ledger/lock", "")); }

  void write(const std::string& status) const { directory_.write("status.json", status); }
  void was_written(std::chrono::seconds ago) const { set_back("status.json", ago); }
  void is_locked_for(std::chrono::seconds time) const { set_back("ledger/lock", time); }
  SeenRegion look() const { return look_at_directory(directory_.path()); }

  std::optional<diloco::Descriptor> lock_;

 private:
  void set_back(const char* name, std::chrono::seconds time) const {
    const auto now = std::filesystem::file_time_type::clock::now();
    std::filesystem::last_write_time(directory_ / name, now - time);
  }

  const TemporaryDirectory directory_;
};

TEST_F(DirectoryOfARegion, ShowsACoordinatorThatWorks) {
  write(R"({"region": "east"})");
  is_locked_for(std::chrono::hours(1));
  was_written(std::chrono::seconds(3));
  EXPECT_TRUE(look().works());
  EXPECT_TRUE(look().is_well());
  was_written(std::chrono::seconds(-3600));
  EXPECT_TRUE(look().works()) << "the host's clock was set back";
}

// A process that was stopped holds its lock.
TEST_F(DirectoryOfARegion, ShowsACoordinatorThatHangs) {
  write(R"({"region": "east", "pid": 4711, "progress": {"tokens_per_s": 1200.0}, "left_s": 580,
            "links": {"west": {"up": true}}})");
  is_locked_for(std::chrono::hours(1));
  was_written(std::chrono::seconds(40));
  const SeenRegion hung = look();
  EXPECT_TRUE(hung.runs);
  EXPECT_TRUE(hung.hangs);
  EXPECT_FALSE(hung.is_well());
  const std::string table = run_table({hung, seen_region("west", {})});
  EXPECT_THAT(table, HasSubstr("HANGS: wrote last at " + hung.written_utc + "\n"));
  EXPECT_THAT(table, HasSubstr(" 1,200 tokens/s"));
  EXPECT_THAT(table, HasSubstr("! east: its coordinator (process 4711) has shown no sign of life"));
  EXPECT_THAT(table, HasSubstr("`kill -CONT 4711`"));
  EXPECT_THAT(table, Not(HasSubstr("east > west")));
  EXPECT_THAT(table, Not(HasSubstr("9 min")));
  EXPECT_THAT(region_page(hung), HasSubstr("HANGS: its coordinator (process 4711)"));
  EXPECT_THAT(run_json({hung}), HasSubstr("\"hangs\": true"));
  lock_.reset();
  EXPECT_FALSE(look().hangs) << "it is gone";
}

TEST_F(DirectoryOfARegion, ShowsACoordinatorThatStillReadsItsFiles) {
  write(R"({"region": "east", "progress": {"tokens_per_s": 1200.0}})");
  is_locked_for(std::chrono::seconds(40));
  was_written(std::chrono::hours(1));
  const SeenRegion starting = look();
  EXPECT_FALSE(starting.hangs);
  EXPECT_TRUE(starting.is_well());
  const std::string table = run_table({starting});
  EXPECT_THAT(table, HasSubstr("starts: reads its files\n"));
  EXPECT_THAT(table, HasSubstr(" 0 tokens/s"));
  EXPECT_THAT(region_page(starting), HasSubstr("starts: reads its files"));
}

// One that waits for its last followers.
TEST_F(DirectoryOfARegion, IsFinishedHoweverLongAgoThatWasWritten) {
  write(R"({"region": "east", "finished": true})");
  is_locked_for(std::chrono::hours(1));
  was_written(std::chrono::seconds(50));
  EXPECT_FALSE(look().hangs);
  EXPECT_TRUE(look().is_well());
}

}  // namespace
}  // namespace causeway::run
