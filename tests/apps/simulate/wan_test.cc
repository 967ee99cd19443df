#include "apps/run/simulate/wan.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

TEST(DirectWan, GivesEveryRegionAPortThatAllOthersDial) {
  const auto wan = make_direct_wan({"a", "b", "c"});
  EXPECT_EQ(wan->listen("a").port, wan->address("b", "a").port);
  EXPECT_EQ(wan->address("c", "a").port, wan->address("b", "a").port);
  EXPECT_EQ(
      (std::set<int>{wan->listen("a").port, wan->listen("b").port, wan->listen("c").port}).size(),
      3U);
  EXPECT_FALSE(wan->stop_and_judge());
}

class RelayWanTest : public testing::Test {
 protected:
  TemporaryDirectory directory_;
  std::filesystem::path scenario_ = directory_.write(
      "wan.toml",
      "name = \"test\"\nregions = [\"a\", \"b\"]\n[defaults]\nrtt_ms = 1\nrate_mbit_s = 1000\n");
};

TEST_F(RelayWanTest, CarriesBytesToWhereTheRegionListensNow) {
  asio::io_context context(1);
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  const std::uint16_t port = acceptor.local_endpoint().port();
  const auto wan =
      make_relay_wan(scenario_, {"a", "b"},
                     [port](const std::string& region) {
                       return region == "b" ? std::optional<std::uint16_t>(port) : std::nullopt;
                     },
                     {});
  const inter::Endpoint there = wan->address("a", "b");
  EXPECT_NE(there.port, port);
  asio::ip::tcp::socket out(context), in(context);
  out.connect({asio::ip::make_address(there.host), there.port});
  asio::write(out, asio::buffer("hello", 5));
  acceptor.accept(in);
  std::string got(5, ' ');
  asio::read(in, asio::buffer(got));
  EXPECT_EQ(got, "hello");
  EXPECT_TRUE(wan->stop_and_judge());
}

TEST_F(RelayWanTest, AScenarioWithoutARegionIsRefused) {
  const auto nowhere = [](const std::string&) { return std::nullopt; };
  EXPECT_THROW(make_relay_wan(scenario_, {"a", "c"}, nowhere, {}), ConfigError);
  EXPECT_THROW(make_relay_wan("", {"a", "b"}, nowhere, {}), ConfigError);
}

}  // namespace
}  // namespace causeway::run
