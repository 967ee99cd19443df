// Who must have the same settings, and how the difference is told.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/config/config.h"
#include "apps/run/config/config_schema.h"
#include "diloco/coordinator/greeting.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using ::testing::HasSubstr;

TEST(SharedSettings, AreSortedLinesOfWhatRegionsMustShare) {
  const std::string text = shared_settings(load_text(kSmallConfig));
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  EXPECT_TRUE(std::is_sorted(lines.begin(), lines.end()));
  EXPECT_THAT(lines, ::testing::Contains("train.k = 20"));
  EXPECT_THAT(lines, ::testing::Contains("regions.name = [\"east\", \"west\"]"));
  EXPECT_THAT(lines, ::testing::Contains("sync.founder = \"east\""));
}

TEST(SharedSettings, DoNotHoldWhatMayDiffer) {
  const auto shared = [](const std::vector<std::string>& overrides) {
    return shared_settings(load_text(kSmallConfig, overrides));
  };
  const std::string plain = shared({});
  EXPECT_EQ(shared({"regions.east.workers=2", "regions.west.listen=0.0.0.0:1", "data.files=other",
                    "wan.profile=x", "train.micro_batches=2", "certificates.directory=elsewhere",
                    "sync.grace_min_s=1"}),
            plain);
  EXPECT_NE(shared({"train.k=10"}), plain);
  EXPECT_NE(shared({"outer.lr=0.5"}), plain);
}

TEST(SharedSettings, EveryKeySaysWhoMustHaveTheSameValue) {
  for (const auto& key : config_keys()) EXPECT_NE(key.shared_by, SharedBy::unsaid) << key.name;
  for (const auto& key : region_keys()) EXPECT_NE(key.shared_by, SharedBy::unsaid) << key.name;
}

TEST(RegionSettings, HoldWhatChangesTheNumbersOfARegionAndNotWhatIsAProcesssOwn) {
  const auto of_east = [](const std::vector<std::string>& overrides) {
    return region_settings(load_text(kSmallConfig, overrides), "east");
  };
  const std::string plain = of_east({});
  for (const std::string change :
       {"inner.lr=0.5", "train.batch=64", "inner.weight_decay=0.5", "run.seed=9", "outer.lr=0.5",
        "train.micro_batches=2", "train.bucket_mib=1", "model.precision=bf16",
        "train.shard_optimizer=true", "regions.east.workers=2"}) {
    EXPECT_NE(of_east({change}), plain) << change;
  }
  const std::string of_two = of_east({"regions.east.workers=2"});
  EXPECT_NE(of_east({"regions.east.workers=2", "train.bucket_precision=bf16"}), of_two);
  EXPECT_EQ(of_east({"regions.west.workers=2", "data.files=other", "wan.profile=x",
                     "train.timed_step_ms=5", "sync.grace_min_s=1", "links.connections=2"}),
            plain);
}

// Whatever two regions disagree on, they part with its name before anything is trained.
TEST(T9, EverySharedSettingThatDiffersIsRefusedByName) {
  const std::string text = shared_settings(load_text(kSmallConfig));
  const diloco::Greeting ours{.run_id = "run", .region = "east", .shared_config = text};
  std::istringstream stream(text);
  int settings = 0;
  for (std::string line; std::getline(stream, line); ++settings) {
    const std::string key = line.substr(0, line.find(" = "));
    std::string altered = text;
    altered.replace(altered.find(line + "\n"), line.size(), key + " = other");
    const diloco::Greeting theirs{.run_id = "run", .region = "west", .shared_config = altered};
    const auto judgement = diloco::judge(ours, "west", diloco::serialize(theirs));
    EXPECT_EQ(judgement.kind, diloco::RefusalKind::configuration) << line;
    EXPECT_THAT(judgement.reason, HasSubstr(line + " here, other in west"));
  }
  EXPECT_GT(settings, 30);
}

}  // namespace
}  // namespace causeway::run
