#include "wan-sim/packet/namespaces.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::wan_sim {
namespace {

// Left by a WAN that was killed.
class OldName {
 public:
  explicit OldName(const std::string& region) : path_(path_of(region)) {
    std::filesystem::create_directories(path_.parent_path());
    std::ofstream{path_};
  }
  ~OldName() { std::filesystem::remove(path_); }
  static std::filesystem::path path_of(const std::string& region) {
    return "/run/netns/causeway-" + region;
  }

 private:
  std::filesystem::path path_;
};

TEST(Namespaces, AStartThatFailsTakesItsNamesBackAndTellsHowToRemoveAllOldOnes) {
  const std::string run = "test" + std::to_string(::getpid());
  const std::string a = run + "a", b = run + "b", c = run + "c";
  const Scenario scenario = parse_scenario("regions = ['" + a + "', '" + b + "', '" + c +
                                               "']\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 1\n",
                                           "wan.toml");
  if (::geteuid() != 0) GTEST_SKIP() << "without root it would move this process for good";
  try {
    const Namespaces unnamed(scenario, false);
  } catch (const std::system_error& error) {
    GTEST_SKIP() << error.what();
  }
  const OldName second(b), third(c);
  try {
    const Namespaces named(scenario, true);
    ADD_FAILURE() << "an old name was taken over";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("ip netns delete causeway-" + b +
                                                 "; ip netns delete causeway-" + c));
  }
  EXPECT_FALSE(std::filesystem::exists(OldName::path_of(a)));
}

}  // namespace
}  // namespace causeway::wan_sim
