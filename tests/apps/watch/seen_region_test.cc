#include "apps/run/watch/seen_region.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"
#include "apps/run/watch/run_table.h"
#include "tests/apps/temporary.h"
#include "tests/apps/watch/seen_region_fixture.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace causeway::run
