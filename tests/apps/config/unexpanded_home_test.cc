#include "apps/run/config/unexpanded_home.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::run {
namespace {

using testing::Optional;

std::optional<std::string> found_in(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return unexpanded_home(arguments);
}

TEST(UnexpandedHome, OfAPathIsNamedWithItsOption) {
  EXPECT_THAT(found_in({"causeway", "follow", "run.toml", "--directory=~/served"}),
              Optional(std::string("--directory=~/served")));
  EXPECT_THAT(found_in({"causeway", "export", "runs/a", "--out", "~/run.tar"}),
              Optional(std::string("--out ~/run.tar")));
  EXPECT_THAT(found_in({"causeway", "certs", "--directory", "~", "init"}),
              Optional(std::string("--directory ~")));
}

TEST(UnexpandedHome, InCommandsTextsAndOtherNamesIsLeftAlone) {
  EXPECT_EQ(found_in({"causeway", "follow", "run.toml", "--after", "~/bin/take $CAUSEWAY_MODEL"}),
            std::nullopt);
  EXPECT_EQ(found_in({"causeway", "generate", "model", "--prompt", "~/"}), std::nullopt);
  EXPECT_EQ(found_in({"causeway", "status", "--config", "~backup.toml", "--directory=a~/b"}),
            std::nullopt);
  EXPECT_EQ(found_in({"causeway", "wan-sim", "--run", "--", "rsync", "--out", "~/x"}),
            std::nullopt);
}

}  // namespace
}  // namespace causeway::run
