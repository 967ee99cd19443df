#include "diloco/coordinator/peer_links.h"

#include <gtest/gtest.h>

#include "tests/diloco/coordinator/lone_region.h"

namespace causeway::diloco {
namespace {

using Peers = std::map<std::string, std::string>;

Peers dial(const CoordinatorOptions& options, const Membership& membership) {
  Peers peers;
  for (const auto& [region, endpoint] : dialled(options, membership)) {
    peers[region] = endpoint.host.empty() ? "" : inter::to_string(endpoint);
  }
  return peers;
}

CoordinatorOptions configured() {
  CoordinatorOptions options;
  options.region = "a";
  options.members = {{.region = "a"}, {.region = "b", .address = "here:1"}, {.region = "c"}};
  return options;
}

TEST(PeerLinks, DialEverybodyWhoIsConfiguredBeforeTheLogIsKnown) {
  EXPECT_EQ(dial(configured(), {}), (Peers{{"b", "here:1"}, {"c", ""}}));
}

TEST(PeerLinks, DialTheLogsMembersWhereTheConfigurationSays) {
  Membership log;
  log.members = {{.region = "a"},
                 {.region = "b", .address = "elsewhere:2"},
                 {.region = "d", .address = "joined:3"}};
  EXPECT_EQ(dial(configured(), log), (Peers{{"b", "here:1"}, {"d", "joined:3"}}));
}

// A region that lost its disk learns the run from the next one that greets it.
TEST(PeerLinks, GreetWithTheRunThatTheyHaveLearned) {
  testing::LoneRegion region(0, Start::join);
  PeerLinks links(region.context());
  const auto told = [&links] {
    return judge({.run_id = "", .region = "c", .shared_config = ""}, "a", links.greeting())
        .peers_run_id;
  };
  EXPECT_EQ(told(), "");
  const Greeting founder{.run_id = "run-7", .region = "b", .shared_config = ""};
  ASSERT_EQ(links.judge_greeting("b", serialize(founder)), "");
  EXPECT_EQ(told(), "run-7");
}

TEST(PeerLinks, EndWhereTooManyAreOfAnotherRun) {
  testing::LoneRegion region;
  PeerLinks links(region.context());
  const Greeting other{.run_id = "other", .region = "b", .shared_config = ""};
  EXPECT_NE(links.judge_greeting("b", serialize(other)), "");
  ASSERT_TRUE(region.ending_.outcome());
  EXPECT_EQ(region.ending_.outcome()->exit_code, 4);
}

}  // namespace
}  // namespace causeway::diloco
