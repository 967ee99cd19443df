#include "apps/run/region/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/region/region_files.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

using ::testing::HasSubstr;

std::string problem(const std::filesystem::path& path, const Config& config, bool resume) {
  try {
    RunDirectory(path, config, resume);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(RunDirectory, HoldsConfigurationAndCertificates) {
  const TemporaryDirectory directory;
  const Config config = load_text(kSmallConfig);
  const RunDirectory run(directory / "run", config, false);
  EXPECT_EQ(read_text_file(run.config_file()), to_toml(config));
  EXPECT_TRUE(std::filesystem::exists(run.certificates() / "ca.crt"));
  EXPECT_TRUE(std::filesystem::exists(run.certificates() / "west.crt"));
  EXPECT_TRUE(std::filesystem::is_directory(run.region("east")));
  EXPECT_GT(run.read_spent().began_s, 0);
}

TEST(RunDirectory, TakesTheLongestNames) {
  const TemporaryDirectory directory;
  Config config = load_text(kSmallConfig);
  config.name = std::string(63, 'r');
  config.regions.front().name = std::string(63, 'a');
  const RunDirectory run(directory / "run", config, false);
  EXPECT_TRUE(std::filesystem::exists(run.certificates() / (std::string(63, 'a') + ".crt")));
}

TEST(RunDirectory, ARunIsNotOverwritten) {
  const TemporaryDirectory directory;
  const Config config = load_text(kSmallConfig);
  EXPECT_EQ(problem(directory / "run", config, false), "");
  EXPECT_THAT(problem(directory / "run", config, false), HasSubstr("--resume"));
}

TEST(RunDirectory, OnlyARunCanBeResumed) {
  const TemporaryDirectory directory;
  EXPECT_THAT(problem(directory / "run", load_text(kSmallConfig), true), HasSubstr("holds no run"));
}

TEST(RunDirectory, IsForOneProgramAtATime) {
  const TemporaryDirectory directory;
  const Config config = load_text(kSmallConfig);
  const RunDirectory run(directory / "run", config, false);
  EXPECT_THAT(problem(directory / "run", config, true),
              HasSubstr("another `causeway simulate` runs there"));
}

TEST(RunDirectory, APlaceThatCannotBeADirectoryIsRefused) {
  const TemporaryDirectory directory;
  directory.write("file", "text");
  EXPECT_THAT(problem(directory / "file" / "run", load_text(kSmallConfig), false),
              HasSubstr("cannot be written (Not a directory)"));
}

TEST(RunDirectory, ResumingKeepsTheTimeSpent) {
  const TemporaryDirectory directory;
  const Config config = load_text(kSmallConfig);
  RunDirectory(directory / "run", config, false).write_spent({1, 2, 3, 4});
  const RunDirectory::Spent spent = RunDirectory(directory / "run", config, true).read_spent();
  EXPECT_EQ(spent.wall_s, 2);
  EXPECT_EQ(spent.restarts, 4U);
}

TEST(RunDirectory, ResumingWithOtherSharedSettingsShowsTheDifference) {
  const TemporaryDirectory directory;
  problem(directory / "run", load_text(kSmallConfig), false);
  const std::string message =
      problem(directory / "run", load_text(kSmallConfig, {"train.k=10"}), true);
  EXPECT_THAT(message, HasSubstr("there: train.k = 20"));
  EXPECT_THAT(message, HasSubstr("here:  train.k = 10"));
  EXPECT_EQ(problem(directory / "run", load_text(kSmallConfig, {"regions.east.workers=2"}), true),
            "");
}

TEST(RunDirectory, LinksTheDecidersOutputs) {
  const TemporaryDirectory directory;
  const RunDirectory run(directory / "run", load_text(kSmallConfig), false);
  directory.write("run/regions/east/checkpoints/final/model.safetensors", "weights");
  directory.write("run/regions/east/ledger/run", "id");
  run.link_outputs("east");
  run.link_outputs("east");  // a resumed run does it again
  EXPECT_EQ(read_text_file(directory / "run/checkpoints/final/model.safetensors"), "weights");
  EXPECT_EQ(read_text_file(directory / "run/ledger/run"), "id");
}

}  // namespace
}  // namespace causeway::run
