// The links that a tuning is about: taken from a profile or a run, and probed.
#include "apps/run/tune/links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

TEST(TuneLinks, ARingIsOrderedToAvoidTheSlowestLink) {
  const auto scenario = wan_sim::parse_scenario(
      "regions = ['a', 'b', 'c', 'd']\n[defaults]\nrtt_ms = 0\nrate_mbit_s = 80\n"
      "[[link]]\na = 'a'\nb = 'b'\nrtt_ms = 0\nrate_mbit_s = 8\n",
      "test.toml");
  const std::vector<std::string> regions = {"a", "b", "c", "d"};
  // 2 (R - 1) pieces of a quarter of 40 MB at 10 MB/s.
  const Ring ring = ring_all_reduce(link_matrix(scenario, regions), regions, 40e6);
  EXPECT_NEAR(ring.seconds, 6, 1e-9);
  EXPECT_NEAR(ring.bytes_per_hop, 60e6, 1e-3);
  const auto at = std::ranges::find(ring.order, "b") - ring.order.begin();
  EXPECT_NE(ring.order[1], "b");  // a sends to c or d
  EXPECT_EQ(at, 2);               // and b does not send to a
}

class TuneLinksOfARun : public testing::Test {
 protected:
  TemporaryDirectory run_;
};

TEST_F(TuneLinksOfARun, MayBeThoseThatCoordinatorsMeasured) {
  run_.write("regions/us/status.json",
             R"({"links": {"eu": {"round_trip_ms": 80.0, "rate_mbit_s": 50.0}}})");
  run_.write("regions/eu/status.json",
             R"({"links": {"us": {"round_trip_ms": 80.0, "rate_mbit_s": 0.0}}})");
  const auto links = link_matrix(links_of_run(run_.path(), {"us", "eu"}), {"us", "eu"});
  EXPECT_NEAR(links.at({"us", "eu"}).latency_s, 0.04, 1e-9);
  EXPECT_NEAR(links.at({"us", "eu"}).bytes_per_s, 6.25e6, 1);
  EXPECT_NEAR(links.at({"eu", "us"}).bytes_per_s, 6.25e6, 1);  // from the other direction
  EXPECT_THROW(links_of_run(run_.path(), {"us", "asia"}), ConfigError);
}

TEST_F(TuneLinksOfARun, OfTwoThatNeverHadOneAreSaidToBeMissing) {
  run_.write("us/status.json", R"({"links": {"eu": {"via": "asia", "rate_mbit_s": 0}}})");
  run_.write("eu/status.json", R"({"links": {"us": {"via": "asia", "rate_mbit_s": 0}}})");
  try {
    links_of_run(run_.path(), {"us", "eu"});
    FAIL() << "nothing is known of it";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("what went between them by way of asia"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(TuneLinksOfARun, MayBeSlowerThanAnyThatIsSimulated) {
  run_.write("us/status.json",
             R"({"links": {"eu": {"round_trip_ms": 22000.0, "rate_mbit_s": 0.002}}})");
  run_.write("eu/status.json",
             R"({"links": {"us": {"round_trip_ms": 4000.0, "rate_mbit_s": 0.5}}})");
  const auto links = link_matrix(links_of_run(run_.path(), {"us", "eu"}), {"us", "eu"});
  EXPECT_NEAR(links.at({"us", "eu"}).bytes_per_s, 1250, 1);
}

TEST_F(TuneLinksOfARun, AreFoundWhereARunThatWasStartedByHandHasThem) {
  run_.write("us/status.json",
             R"({"links": {"eu": {"round_trip_ms": 80.0, "rate_mbit_s": 50.0}}})");
  run_.write("eu/status.json",
             R"({"links": {"us": {"round_trip_ms": 80.0, "rate_mbit_s": 25.0}}})");
  const auto links = link_matrix(links_of_run(run_.path(), {"us", "eu"}), {"us", "eu"});
  EXPECT_NEAR(links.at({"us", "eu"}).bytes_per_s, 6.25e6, 1);
}

TEST_F(TuneLinksOfARun, HaveTheSpreadThatItMeasured) {
  const auto write_status = [&](const std::string& from, const std::string& to,
                                const std::string& more) {
    run_.write(
        "regions/" + from + "/status.json",
        R"({"links": {")" + to + R"(": {"round_trip_ms": 80, "rate_mbit_s": 60)" + more + "}}}");
  };
  write_status("us", "eu", R"(, "rate_p50_mbit_s": 50, "rate_p05_mbit_s": 20)");
  write_status("eu", "us", "");  // of a version that did not tell
  const auto links = probed_links_of_run(run_.path(), {"us", "eu"}, 1'000'000);
  ASSERT_EQ(links.size(), 2U);
  EXPECT_NEAR(links[0].beta_s_per_byte.value(), 8e-6 / 60, 1e-12);
  EXPECT_FALSE(links[0].p50_s || links[0].p95_s);
  EXPECT_NEAR(links[1].alpha_s.value(), 0.04, 1e-9);
  EXPECT_NEAR(links[1].p50_s.value(), 0.04 + 0.16, 1e-9);
  EXPECT_NEAR(links[1].p95_s.value(), 0.04 + 0.4, 1e-9);
}

class TuneLinkProbe : public testing::Test {
 protected:
  static std::vector<LinkProbe> probe(const std::string& more,
                                      std::uint64_t payload_bytes = 1'000'000) {
    return probe_links(
        wan_sim::parse_scenario(
            "regions = ['us', 'eu']\n[defaults]\nrtt_ms = 100\nrate_mbit_s = 8\n" + more, "test"),
        {"us", "eu"}, payload_bytes);
  }
};

TEST_F(TuneLinkProbe, FindsAlphaBetaAndSpread) {
  const auto steady = probe("");
  ASSERT_EQ(steady.size(), 2U);
  for (const LinkProbe& link : steady) {
    EXPECT_NEAR(link.alpha_s.value(), 0.05, 0.005) << link.from;
    EXPECT_NEAR(link.beta_s_per_byte.value(), 1e-6, 2e-8);
    EXPECT_NEAR(link.p50_s.value(), 1.05, 0.02);
    EXPECT_NEAR(link.p95_s.value(), 1.05, 0.02);
  }
  const LinkProbe lossy = probe("congestion = 'cubic'\nloss = 0.01\n").front();
  EXPECT_GT(*lossy.p95_s, 1.1 * *lossy.p50_s);
}

TEST_F(TuneLinkProbe, TellsAlphaFromBetaWithSmallPayloads) {
  const LinkProbe link = probe("jitter = 'normal'\njitter_ms = 2\n", 100).front();
  EXPECT_NEAR(link.alpha_s.value(), 0.05, 0.005);
  EXPECT_NEAR(link.beta_s_per_byte.value(), 1e-6, 2e-8);
}

TEST_F(TuneLinkProbe, GoesAroundWhatOnlyOtherEnginesDo) {
  EXPECT_TRUE(probe("[[event]]\nat_s = 1\nprocess = 'kill'\nregion = 'us'\n").front().alpha_s);
  EXPECT_TRUE(probe("[[host]]\nname = 'a'\nregion = 'us'\nrate_mbit_s = 4\n").front().alpha_s);
}

TEST_F(TuneLinkProbe, SaysWhenALinkDeliversNothing) {
  const auto cut = probe("[[event]]\nat_s = 0\nfault = 'black-hole'\nlink = ['us', 'eu']\n");
  for (const LinkProbe& link : cut) {
    EXPECT_EQ(link.alpha_s.has_value(), link.from == "eu") << link.from;
    EXPECT_EQ(link.p95_s.has_value(), link.from == "eu") << link.from;
  }
}

}  // namespace
}  // namespace causeway::run
