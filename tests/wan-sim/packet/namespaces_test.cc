#include "wan-sim/packet/namespaces.h"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::wan_sim {
namespace {

class NamespacesTest : public testing::Test {
 protected:
  static std::string path_of(const std::string& region) { return "/run/netns/causeway-" + region; }
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "without root it would move this process for good";
    try {
      const Namespaces unnamed(scenario_, false);
    } catch (const std::system_error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  const std::string run_ = "test" + std::to_string(::getpid());
  const std::string a_ = run_ + "a", b_ = run_ + "b";
  const Scenario scenario_ = parse_scenario(
      "regions = ['" + a_ + "', '" + b_ + "']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 1\n",
      "wan.toml");
};

TEST_F(NamespacesTest, ANameLeftByAWanThatWasKilledIsTakenOver) {
  // One that ended before it mounted the namespace, and one after.
  std::ofstream(path_of(a_)).flush();
  const pid_t child = ::fork();
  if (child == 0) {
    new Namespaces(parse_scenario("regions = ['" + b_ + "', 'x" + run_ +
                                      "']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 1\n",
                                  "wan.toml"),
                   true);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  ASSERT_TRUE(std::filesystem::exists(path_of(b_)));
  { const Namespaces named(scenario_, true); }
  EXPECT_FALSE(std::filesystem::exists(path_of(a_)));
  EXPECT_FALSE(std::filesystem::exists(path_of(b_)));
  // What nobody took over yet.
  const Namespaces rest(parse_scenario("regions = ['x" + run_ + "', '" + a_ +
                                           "']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 1\n",
                                       "wan.toml"),
                        true);
}

TEST_F(NamespacesTest, ARunningWanKeepsItsNamesAndAStartThatFailsTakesItsOwnBack) {
  const Namespaces running(parse_scenario("regions = ['" + b_ + "', 'y" + run_ +
                                              "']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 1\n",
                                          "wan.toml"),
                           true);
  try {
    const Namespaces named(scenario_, true);
    ADD_FAILURE() << "the name of a running WAN was taken over";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("another WAN runs: stop it"));
  }
  EXPECT_FALSE(std::filesystem::exists(path_of(a_)));
  EXPECT_TRUE(std::filesystem::exists(path_of(b_)));
}

}  // namespace
}  // namespace causeway::wan_sim
