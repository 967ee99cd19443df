#include "apps/run/watch/region_metrics.h"

#include <chrono>
#include <fstream>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_directory.h"
#include "tests/support/test_pki.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;
using testing::Not;

// Prometheus adds them up over peers.
TEST(RegionMetrics, CountersOfARemovedPeerGoOnWithoutALink) {
  const test::TemporaryDirectory directory;
  const nlohmann::json status = {
      {"region", "east"},
      {"links", {{"west", {{"up", true}, {"tx_bytes", 1000}}}}},
      {"removed_links", {{"asia", {{"tx_bytes", 2000}, {"rx_bytes", 3000}, {"connects", 4}}}}}};
  std::ofstream(directory.path() / "status.json") << status.dump();
  Prices prices;
  prices.otherwise = 1e6;
  prices.given = true;
  const RegionMetrics metrics("run", "east", directory.path(), prices);
  const std::string text = metrics.text();
  const auto of = [](const std::string& name, const std::string& peer) {
    return "\ncauseway_" + name + R"({run="run",region="east",peer=")" + peer + "\"} ";
  };
  EXPECT_THAT(text, HasSubstr(of("link_up", "west") + "1\n"));
  EXPECT_THAT(text, Not(HasSubstr(of("link_up", "asia"))));
  EXPECT_THAT(text, HasSubstr(of("link_sent_bytes_total", "west") + "1000\n"));
  EXPECT_THAT(text, HasSubstr(of("link_sent_bytes_total", "asia") + "2000\n"));
  EXPECT_THAT(text, HasSubstr(of("link_received_bytes_total", "asia") + "3000\n"));
  EXPECT_THAT(text, HasSubstr(of("link_connects_total", "asia") + "4\n"));
  EXPECT_THAT(text, HasSubstr(of("egress_cost_total", "asia")));
}

class MetricsOfARegion : public testing::Test {
 protected:
  void write(const nlohmann::json& status) const {
    std::ofstream(directory_.path() / "status.json") << status.dump();
  }
  RegionMetrics metrics(inter::Credentials credentials = {}) const {
    return {"run", "east", directory_.path(), {}, std::move(credentials)};
  }
  static std::string line(const std::string& name, const std::string& value) {
    return "\ncauseway_" + name + R"({run="run",region="east"} )" + value + "\n";
  }

  const test::TemporaryDirectory directory_;
};

TEST_F(MetricsOfARegion, ARoundTripIsShownOfALinkThatIsUpAndWasMeasured) {
  write({{"links",
          {{"west", {{"up", true}, {"round_trip_ms", 250.0}}},
           {"asia", {{"up", false}, {"round_trip_ms", 80.0}}},
           {"north", {{"up", true}, {"round_trip_ms", 0.0}}}}}});
  const std::string text = metrics().text();
  const std::string name = "\ncauseway_link_round_trip_seconds{run=\"run\",region=\"east\",peer=\"";
  EXPECT_THAT(text, HasSubstr(name + "west\"} 0.25\n"));
  EXPECT_THAT(text, Not(HasSubstr(name + "asia")));
  EXPECT_THAT(text, Not(HasSubstr(name + "north")));
}

TEST_F(MetricsOfARegion, WithoutAWorkerItIsNotReady) {
  nlohmann::json status = {
      {"leader", "east"}, {"workers", 2}, {"missing_ranks", {0, 1}}, {"reported_unix_s", nullptr}};
  write(status);
  EXPECT_EQ(metrics().not_ready(), "no worker is attached");
  EXPECT_THAT(metrics().text(), HasSubstr(line("workers_missing", "2")));
  status["missing_ranks"] = nlohmann::json::array({1});
  write(status);
  EXPECT_EQ(metrics().not_ready(), "no worker has begun to work yet");
  status["reported_unix_s"] = 1e9;
  write(status);
  EXPECT_EQ(metrics().not_ready(), "");
  write({{"leader", "east"}, {"workers", 0}});
  EXPECT_EQ(metrics().not_ready(), "") << "a witness";
}

TEST_F(MetricsOfARegion, WhileItsStorageFailsItIsNotReadyForThatReason) {
  write({{"abstains", true}, {"waiting", "its storage fails"}, {"leader", ""}, {"workers", 1}});
  EXPECT_EQ(metrics().not_ready(), "its storage fails");
  EXPECT_THAT(metrics().text(), HasSubstr(line("abstains", "1")));
  EXPECT_THAT(metrics().text(), HasSubstr(line("leads", "0")));
}

TEST_F(MetricsOfARegion, ALossThatIsNoNumberIsToldFromOneThatNobodyReports) {
  write({{"loss_not_finite", false}, {"progress", {{"step", 5}, {"loss", nullptr}}}});
  EXPECT_THAT(metrics().text(), Not(HasSubstr("causeway_loss")));
  write({{"loss_not_finite", true}, {"progress", {{"step", 5}, {"loss", nullptr}}}});
  EXPECT_THAT(metrics().text(), HasSubstr(line("loss_not_finite", "1")));
  write({{"loss_not_finite", false}, {"progress", {{"step", 5}, {"loss", 2.5}}}});
  EXPECT_THAT(metrics().text(), HasSubstr(line("loss_not_finite", "0")));
  EXPECT_THAT(metrics().text(), HasSubstr(line("loss", "2.5")));
}

TEST_F(MetricsOfARegion, TheTimeSinceARoundCountsFromTheProcessAndTrustsNoDate) {
  write({{"workers", 1}});
  RegionMetrics metrics("run", "east", directory_.path());
  const auto now = RegionMetrics::Clock::now() + std::chrono::hours(1);
  EXPECT_THAT(metrics.text(now), HasSubstr("\ncauseway_seconds_since_round{"));
  LoggedRound round;
  round.time_unix_s = 1e12;  // a host that is far ahead
  metrics.count(round, now);
  EXPECT_THAT(metrics.text(now + std::chrono::seconds(90)),
              HasSubstr(line("seconds_since_round", "90")));
  write({{"workers", 0}});
  EXPECT_THAT(metrics.text(now), Not(HasSubstr("seconds_since_round"))) << "a witness";
}

TEST_F(MetricsOfARegion, StepsThatAreDoneAgainLetNoTotalFall) {
  const auto at = [this](const char* run, int step) {
    write({{"run_id", run}, {"progress", {{"step", step}, {"tokens", 10 * step}}}});
  };
  at("a", 1909);
  const RegionMetrics metrics("run", "east", directory_.path());
  at("a", 1890);
  EXPECT_THAT(metrics.text(), HasSubstr(line("steps_total", "1909")));
  EXPECT_THAT(metrics.text(), HasSubstr(line("tokens_total", "19090")));
  at("a", 1920);
  EXPECT_THAT(metrics.text(), HasSubstr(line("steps_total", "1920")));
  at("b", 3);
  EXPECT_THAT(metrics.text(), HasSubstr(line("steps_total", "3"))) << "another run";
}

TEST_F(MetricsOfARegion, APauseForMoneyIsShownWhereThereIsABudget) {
  nlohmann::json status = {{"egress", {{"cost", 1}, {"pauses", true}}}};
  write(status);
  EXPECT_THAT(metrics().text(), Not(HasSubstr("budget_pauses")));
  status["egress"]["limits"] = nlohmann::json::parse(R"([{"period": "day", "limit": 40}])");
  write(status);
  EXPECT_THAT(metrics().text(), HasSubstr(line("budget_pauses", "1")));
}

TEST_F(MetricsOfARegion, ShowsWhenItsCertificatesRunOut) {
  const test::TestPki pki({"east"});
  const std::string text = metrics(pki.credentials("east")).text();
  for (const char* certificate : {"own", "authority"})
    EXPECT_THAT(text, HasSubstr("\ncauseway_certificate_expiry_timestamp_seconds{run=\"run\","
                                "region=\"east\",certificate=\"" +
                                std::string(certificate) + "\"} "));
  const inter::Credentials none{"none.crt", "none.crt", "none.key"};
  EXPECT_THAT(metrics(none).text(), Not(HasSubstr("certificate_expiry")));
}

}  // namespace
}  // namespace causeway::run
