#include "apps/run/replay/credit_table.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/run/config/config.h"
#include "apps/run/replay/credit.h"

namespace causeway::run {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// The last batch is half as large.
std::vector<intra::BlockLoss> batches(double a, double b, double c) {
  return {{8, a}, {8, b}, {4, c}};
}

TEST(LossDifference, IsTheMeanOverWindowsWithItsErrorOverBatches) {
  LossDifference difference;
  difference.add(batches(5, 4, 3), batches(5.5, 4.25, 3));
  const Worth worth = difference.worth();
  EXPECT_DOUBLE_EQ(worth.value, (8 * 0.5 + 8 * 0.25) / 20);
  // 1.5 (8^2 0.2^2 + 8^2 0.05^2 + 4^2 0.3^2), whose root is divided by 20.
  EXPECT_NEAR(*worth.batches_error, std::sqrt(1.5 * (2.56 + 0.16 + 1.44)) / 20, 1e-12);
  EXPECT_FALSE(worth.rounds_error);
}

TEST(LossDifference, OfRoundsAddsUpWithinABatchBeforeItSpreads) {
  LossDifference difference;
  difference.add(batches(5, 4, 3), batches(6, 3, 3));
  difference.add(batches(5, 4, 3), batches(4, 5, 3));
  EXPECT_DOUBLE_EQ(difference.worth().value, 0);
  EXPECT_DOUBLE_EQ(*difference.worth().batches_error, 0);
}

TEST(LossDifference, OfOneBatchHasNoError) {
  LossDifference difference;
  difference.add({{8, 5.0}}, {{8, 5.5}});
  EXPECT_DOUBLE_EQ(difference.worth().value, 0.5);
  EXPECT_FALSE(difference.worth().batches_error);
}

TEST(LossDifference, ErrorOfASumGrowsWithTheSpreadOfItsValues) {
  EXPECT_DOUBLE_EQ(*error_of_sum({1, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(*error_of_sum({1, 3}), 2);  // sqrt(2) times the standard deviation sqrt(2)
  EXPECT_FALSE(error_of_sum({1}));
}

CreditTable a_table() {
  return {.run_id = "r1",
          .first = 3,
          .last = 12,
          .loss = 3.25,
          .data = "data.validation_files",
          .sequences = 20,
          .batches = 3,
          .regions = {{.region = "eu",
                       .rounds = 10,
                       .tokens = 2'000'000,
                       .sent_bytes = 5'000'000,
                       .cost = 0.5,
                       .window = {0.25, 0.01, {}},
                       .singly = {0.125, 0.02, 0.03},
                       .by_round = {{3, 0.0625}, {4, 0.0625}}},
                      {.region = "noise",
                       .rounds = 1,
                       .tokens = 100'000,
                       .sent_bytes = 1000,
                       .cost = 0.25,
                       .window = {-0.5, {}, {}},
                       .singly = {-0.5, {}, {}},
                       .by_round = {{7, -0.5}}}}};
}

TEST(CreditTable, IsWorthPerTokenAndPerCost) {
  const CreditTable table = a_table();
  EXPECT_DOUBLE_EQ(table.regions[0].per_million_tokens(), 0.125);
  EXPECT_DOUBLE_EQ(*table.regions[0].per_cost(), 0.5);
  EXPECT_DOUBLE_EQ(table.regions[1].per_million_tokens(), -5);
  RegionCredit free = table.regions[0];
  free.cost = 0;
  EXPECT_FALSE(free.per_cost());
}

TEST(CreditTable, IsALineForEachRegionUnderItsHeader) {
  const std::vector<std::string> lines = credit_lines(a_table());
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[0],
            "Credit for rounds 3 to 12, by the loss on data.validation_files: 20 sequences in 3 "
            "batches; after these rounds it is 3.250000 nats per token");
  EXPECT_EQ(lines[2],
            "eu          10  2,000,000  5.00 MB  +0.250000   0.010000        +0.125  0.50"
            "              +0.5  +0.125000   0.020000  0.030000");
  EXPECT_THAT(lines[3], testing::StartsWith("noise "));
  EXPECT_THAT(lines[3], HasSubstr("?"));  // from one batch no error is known
  EXPECT_THAT(lines[5], HasSubstr("estimate of first order"));
}

TEST(CreditTable, WithoutPricesHasNoColumnOfThem) {
  CreditTable table = a_table();
  for (RegionCredit& one : table.regions) one.cost.reset();
  EXPECT_THAT(credit_lines(table)[1], Not(HasSubstr("cost")));
  EXPECT_THAT(credit_html(table), Not(HasSubstr("cost")));
}

TEST(CreditTable, ComesBackFromItsJson) {
  const std::string json = credit_json(a_table());
  const auto back = parse_credit(json);
  ASSERT_TRUE(back);
  EXPECT_EQ(credit_json(*back), json);
  EXPECT_THAT(credit_html(*back), HasSubstr("<td>noise</td>"));
}

TEST(CreditTable, DamagedJsonIsNone) {
  EXPECT_FALSE(parse_credit(""));
  EXPECT_FALSE(parse_credit("{\"regions\": 3}"));
  EXPECT_FALSE(parse_credit("{\"regions\": [3, null]}"));
  for (const char* wrong : {"3", "\"x\"", "[1, 2]", "null", "{\"value\": []}"}) {
    auto json = nlohmann::json::parse(credit_json(a_table()));
    for (auto& [key, value] : json["regions"][0].items()) value = nlohmann::json::parse(wrong);
    const auto read = parse_credit(json.dump());
    ASSERT_TRUE(read) << wrong;
    EXPECT_FALSE(credit_html(*read).empty());
  }
}

TEST(CreditTable, RoundsAreReadAsAWindow) {
  EXPECT_EQ(parse_rounds("10-19").first, 10U);
  EXPECT_EQ(parse_rounds("10-19").last, 19U);
  EXPECT_EQ(parse_rounds("7").last, 7U);
  for (const char* wrong : {"", "-", "7-", "-7", "9-7", "1-2-3", "a-b", "1 - 2"})
    EXPECT_THROW(parse_rounds(wrong), ConfigError) << wrong;
}

}  // namespace
}  // namespace causeway::run
