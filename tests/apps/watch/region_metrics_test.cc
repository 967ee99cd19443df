#include "apps/run/watch/region_metrics.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_directory.h"

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

}  // namespace
}  // namespace causeway::run
