#include "apps/run/watch/begin_log.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"
#include "apps/run/region/region_files.h"
#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

class LoggingTest : public testing::Test {
 protected:
  LoggingTest() : before_(spdlog::default_logger()) { begin_log(); }
  ~LoggingTest() override {
    set_log_format(LogFormat::text);
    set_log_level(spdlog::level::info);
    spdlog::set_default_logger(before_);
  }

  TemporaryDirectory directory_;

 private:
  std::shared_ptr<spdlog::logger> before_;
};

TEST_F(LoggingTest, AFileHasEveryLine) {
  log_to_file(directory_ / "worker.log");
  spdlog::info("round {}", 7);
  EXPECT_THAT(read_text_file(directory_ / "worker.log"), testing::HasSubstr("info round 7\n"));
}

TEST_F(LoggingTest, AsJsonALineIsOneObjectWhateverItsTextHolds) {
  set_log_format(LogFormat::json);
  log_to_file(directory_ / "worker.log");
  spdlog::warn("a \"quoted\" \\ line\nwith two rows and \xff");
  const std::string line = read_text_file(directory_ / "worker.log");
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["level"], "warning");
  EXPECT_THAT(json["text"].get<std::string>(), testing::StartsWith("a \"quoted\" \\ line\nwith"));
  EXPECT_TRUE(json["pid"].is_number());
  EXPECT_THAT(json["time"].get<std::string>(), testing::MatchesRegex("2.*T.*Z"));
}

TEST_F(LoggingTest, WhatIsBelowTheLevelIsLeftOut) {
  set_log_level(spdlog::level::warn);
  log_to_file(directory_ / "worker.log");
  spdlog::info("quiet");
  EXPECT_EQ(read_text_file(directory_ / "worker.log"), "");
}

TEST_F(LoggingTest, ASymbolicLinkIsRefusedAndADirectoryEndsNothing) {
  std::filesystem::create_symlink("/dev/null", directory_ / "worker.log");
  EXPECT_THROW(log_to_file(directory_ / "worker.log"), ConfigError);
  std::filesystem::create_directory(directory_ / "other.log");
  EXPECT_NO_THROW(log_to_file(directory_ / "other.log"));
}

}  // namespace
}  // namespace causeway::run
