#include "wan-sim/scenario/scenario.h"

#include <fstream>
#include <system_error>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_directory.h"
#include "wan-sim/base/error.h"

namespace causeway::wan_sim {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class ScenarioFile : public testing::Test {
 protected:
  Scenario load(const std::string& text) {
    std::ofstream(file_) << text;
    return load_scenario(file_);
  }
  // Expects a refusal that names the line (0: none) and says `what`.
  void expect_refused(const std::string& text, int line, const std::string& what) {
    try {
      load(text);
      ADD_FAILURE() << "accepted: " << text;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code(), Errc::bad_scenario);
      const std::string where = file_.string() + (line ? ":" + std::to_string(line) : "") + ": ";
      EXPECT_THAT(error.what(), testing::StartsWith(where));
      EXPECT_THAT(error.what(), HasSubstr(what));
    }
  }

  test::TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "scenario.toml";
};

const std::string kTwo = "regions = ['a', 'b']\n";

TEST_F(ScenarioFile, ReadsASymmetricLink) {
  const Scenario scenario = load(kTwo + R"(
name = "pair"
seed = 7
[[link]]
a = "a"
b = "b"
rtt_ms = 71
rate_mbit_s = 100
jitter_ms = 0.5
stalls_per_s = 0.1
stall_ms = 200
queue_kib = 512
)");
  EXPECT_EQ(scenario.name, "pair");
  EXPECT_EQ(scenario.seed, 7U);
  EXPECT_EQ(scenario.regions, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(scenario.links.size(), 2U);
  for (const auto& [pair, link] : scenario.links) {
    EXPECT_EQ(link.rate_bytes_per_s, 12.5e6);
    EXPECT_EQ(link.delay, 35'500us);
    EXPECT_EQ(link.jitter.scale, 500us);
    EXPECT_EQ(link.stalls_per_s, 0.1);
    EXPECT_EQ(link.stall, 200ms);
    EXPECT_EQ(link.queue_bytes, 512U * 1024);
  }
}

TEST_F(ScenarioFile, ADirectedLinkRefinesASymmetricOneAndDefaultsFillTheRest) {
  const Scenario scenario = load(kTwo + R"(
[defaults]
rate_mbit_s = 80
jitter_ms = 1
[[link]]
from = "b"
to = "a"
delay_ms = 20
rate_mbit_s = 8
[[link]]
a = "a"
b = "b"
rtt_ms = 60
)");
  const auto& there = scenario.links.at({"a", "b"});
  const auto& back = scenario.links.at({"b", "a"});
  EXPECT_EQ(there.delay, 30ms);
  EXPECT_EQ(there.rate_bytes_per_s, 10e6);
  EXPECT_EQ(back.delay, 20ms);
  EXPECT_EQ(back.rate_bytes_per_s, 1e6);
  EXPECT_EQ(back.jitter.scale, 1ms);
  EXPECT_EQ(back.queue_bytes, LinkProfile().queue_bytes);
}

TEST_F(ScenarioFile, CompleteDefaultsStandForMissingPairs) {
  const Scenario scenario =
      load("regions = ['a', 'b', 'c']\n[defaults]\nrtt_ms = 10\nrate_mbit_s = 1\n");
  EXPECT_EQ(scenario.links.size(), 6U);
  EXPECT_EQ(scenario.links.at({"c", "a"}).delay, 5ms);
  EXPECT_EQ(scenario.name, file_.stem().string());
}

TEST_F(ScenarioFile, RefusesAPairThatIsMissing) {
  expect_refused(
      "regions = ['a', 'b', 'c']\n[[link]]\na = 'a'\nb = 'b'\nrtt_ms = 1\nrate_mbit_s = 1\n", 0,
      "the link from 'a' to 'c' has no rate_mbit_s; add a [[link]]");
  expect_refused(kTwo + "[[link]]\na = 'a'\nb = 'b'\nrate_mbit_s = 1\n", 2,
                 "the link from 'a' to 'b' has no rtt_ms or delay_ms");
  expect_refused(kTwo + "[[link]]\nfrom = 'a'\nto = 'b'\ndelay_ms = 1\nrate_mbit_s = 1\n", 0,
                 "the link from 'b' to 'a'");
}

TEST_F(ScenarioFile, NamesTheNearestKey) {
  expect_refused("region = ['a', 'b']\n", 1, "unknown key 'region'; did you mean 'regions'?");
  expect_refused(kTwo + "[defaults]\nrate_mbits = 1\n", 3, "did you mean 'rate_mbit_s'?");
  expect_refused(kTwo + "[[link]]\na = 'a'\nb = 'b'\nrtt = 1\n", 5, "did you mean 'rtt_ms'?");
  expect_refused(kTwo + "[[link]]\na = 'a'\nb = 'b'\ndelay_ms = 1\n", 5,
                 "(allowed here: a, b, rtt_ms,");
}

TEST_F(ScenarioFile, NamesTheAllowedRange) {
  const auto refuse = [&](const std::string& setting, const std::string& what) {
    expect_refused(kTwo + "[defaults]\n" + setting + "\n", 3, what);
  };
  refuse("rate_mbit_s = 0", "rate_mbit_s must be a number from 0.01 to 100000 Mbit/s");
  refuse("rate_mbit_s = 'fast'", "rate_mbit_s must be a number");
  refuse("rate_mbit_s = nan", "rate_mbit_s must be a number");
  refuse("rtt_ms = -1", "rtt_ms must be a number from 0 to 10000 ms");
  refuse("delay_ms = 5001", "delay_ms must be a number from 0 to 5000 ms");
  refuse("jitter_ms = inf", "jitter_ms must be a number from 0 to 1000 ms");
  refuse("stalls_per_s = 11", "stalls_per_s must be a number from 0 to 10 1/s");
  refuse("stall_ms = 60001", "stall_ms must be a number from 0 to 60000 ms");
  refuse("queue_kib = 63", "queue_kib must be a number from 64 to 4194304 KiB");
  refuse("send_buffer_kib = 63", "send_buffer_kib must be a number from 64 to 4194304 KiB");
  refuse("trace = 'none.csv'", "none.csv does not exist");
}

TEST_F(ScenarioFile, RefusesWhatContradictsItself) {
  const std::string link = "[[link]]\na = 'a'\nb = 'b'\nrtt_ms = 1\nrate_mbit_s = 1\n";
  expect_refused(kTwo + link + "[[link]]\na = 'b'\nb = 'a'\n", 7, "was already given in line 2");
  expect_refused(kTwo + "[defaults]\nrtt_ms = 1\ndelay_ms = 1\n", 2, "exclude each other");
  expect_refused(kTwo + "[[link]]\na = 'a'\nb = 'a'\n", 2, "two different regions");
  expect_refused(kTwo + "[[link]]\na = 'a'\nb = 'x'\n", 4, "'x' is not one of the regions (a, b)");
  expect_refused(kTwo + "[[link]]\na = 'a'\nto = 'b'\n", 2,
                 "either a and b (both ways) or from and to");
  expect_refused(kTwo + link + "stalls_per_s = 10\nstall_ms = 101\n", 2,
                 "would stand still nearly always");
}

TEST_F(ScenarioFile, RefusesRegionsThatCannotBe) {
  expect_refused("regions = ['a']\n", 1, "a list of 2 to 64 names");
  expect_refused("seed = 1\n", 0, "regions must be a list");
  expect_refused("regions = ['a', 'a']\n", 1, "'a' is listed twice");
  expect_refused("regions = ['a', 'B c']\n", 1, "cannot name a region: 1 to 63 of a-z, 0-9 and -");
  expect_refused("regions = ['a', 1]\n", 1, "must be a string");
}

TEST_F(ScenarioFile, RefusesOtherTypesThanItExpects) {
  expect_refused("seed = -1\n" + kTwo, 1, "seed must be an integer from 0");
  expect_refused("name = 3\n" + kTwo, 1, "name must be a string");
  expect_refused("defaults = 3\n" + kTwo, 1, "defaults must be a table");
  expect_refused("link = 3\n" + kTwo, 1, "[[link]]");
  expect_refused("link = [3]\n" + kTwo, 1, "link must be a table");
}

TEST_F(ScenarioFile, SaysWhereTheSyntaxIsWrong) {
  expect_refused(kTwo + "seed = = 1\n", 2, "");
}

TEST(Scenario, AFileThatIsNotThereIsNamed) {
  try {
    load_scenario("no/such/file.toml");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::bad_scenario);
    EXPECT_THAT(error.what(), HasSubstr("no/such/file.toml"));
  }
}

TEST(Scenario, EveryProfileThatWeShipLoads) {
  int profiles = 0;
  for (const auto& entry : std::filesystem::directory_iterator(CAUSEWAY_WAN_PROFILES)) {
    const Scenario scenario = load_scenario(entry.path());
    EXPECT_EQ(scenario.name, entry.path().stem().string());
    ++profiles;
  }
  EXPECT_GE(profiles, 3);
}

TEST(Scenario, TheQuickstartHasTheRoundTripsOfItsRegions) {
  const auto links = load_scenario(CAUSEWAY_WAN_PROFILES "/quickstart.toml").links;
  EXPECT_EQ(links.at({"us-east", "eu-west"}).delay, 35'500us);
  EXPECT_EQ(links.at({"ap-northeast", "us-east"}).delay, 76ms);
  EXPECT_EQ(links.at({"eu-west", "ap-northeast"}).delay, 102ms);
  for (const auto& [pair, link] : links) EXPECT_EQ(link.rate_bytes_per_s, 12.5e6);
}

}  // namespace
}  // namespace causeway::wan_sim
