// What a tuning says of the price of traffic.
#include "apps/run/config/prices.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run/tune/tune.h"
#include "tests/apps/tune/tune_fixture.h"

namespace causeway::run {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST_F(TuneTest, TrafficCostsWhatTheTableSays) {
  TuneOptions priced = options();
  priced.prices =
      write("prices.toml", "default_per_gb = 1\n[[price]]\nfrom = 'us'\nto = 'eu'\nper_gb = 3\n");
  const Tuning tuning = tuned(priced);
  const auto& row = tuning.forecast.rows.front();
  EXPECT_NEAR(row.cost_per_round, double(tuning.probe.codecs.front().payload_bytes) / 1e9 * 4,
              1e-12);
  EXPECT_GT(row.cost_to_loss, 0);
  EXPECT_GT(tuning.synchronous_cost(), row.cost_to_loss);
  EXPECT_THAT(tuning_text(tuning), HasSubstr("traffic costs"));
  EXPECT_GT(nlohmann::json::parse(tuning_json(tuning))["comparison"]["synchronous_every_step"].at(
                "saved_cost"),
            0);
}

TEST_F(TuneTest, PricesOfTheConfigurationCountUnlessOthersAreGiven) {
  TuneOptions asked = options();
  asked.overrides = {"links.prices=" + write("own.toml", "default_per_gb = 2\n").string()};
  const Tuning own = tuned(asked);
  const auto payload_gb = double(own.probe.codecs.front().payload_bytes) / 1e9;
  EXPECT_NEAR(own.forecast.rows.front().cost_per_round, payload_gb * 2 * 2, 1e-12);
  asked.prices = write("others.toml", "default_per_gb = 5\n");
  EXPECT_NEAR(tuned(asked).forecast.rows.front().cost_per_round, payload_gb * 2 * 5, 1e-12);
}

TEST_F(TuneTest, PricesOfTheConfigurationThatAreNotHereLeaveTheCostOut) {
  TuneOptions asked = options();
  asked.overrides = {"links.prices=of-another-host.toml"};
  const Tuning tuning = tuned(asked);
  EXPECT_FALSE(tuning.prices.given);
  EXPECT_THAT(tuning.warnings, Contains(HasSubstr("of-another-host.toml")));
}

TEST_F(TuneTest, WithoutPricesTheCostIsNotKnown) {
  const auto json = nlohmann::json::parse(tuning_json(tuned(options())));
  EXPECT_TRUE(json["rows"][0].at("cost_to_loss").is_null());
  EXPECT_TRUE(json["recommended"].at("cost_per_round").is_null());
  EXPECT_TRUE(json["comparison"]["synchronous_every_step"].at("saved_cost").is_null());
}

TEST_F(TuneTest, APriceThatWouldBeOverlookedIsRefused) {
  const std::vector<std::string> known = {"us", "eu"};
  for (const char* text :
       {"[[price]]\nfrom = 'us'\n", "[[price]]\nfrom='us'\nto='ue'\nper_gb=1\n",
        "[[prices]]\nfrom='us'\nto='eu'\nper_gb=1\n", "default_per_GB = 1\n",
        "default_per_gb = '1'\n", "default_per_gb = -1\n", "price = 3\n",
        "[[price]]\nfrom='us'\nto='eu'\nper_gb=1\nper_tb=1\n",
        "[[price]]\nfrom='us'\nto='us'\nper_gb=1\n",
        "price = [{from='us', to='eu', per_gb=1}, {from='us', to='eu', per_gb=2}]\n"}) {
    EXPECT_THROW(load_prices(write("bad.toml", text), known), ConfigError) << text;
  }
  // As a table of all pairs has it.
  EXPECT_NO_THROW(
      load_prices(write("table.toml", "[[price]]\nfrom='us'\nto='us'\nper_gb=0\n"), known));
}

}  // namespace
}  // namespace causeway::run
