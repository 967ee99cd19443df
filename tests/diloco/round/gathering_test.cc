// What a region tells the leader among many regions: members a to f, of which b leads.
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/exchange.h"
#include "diloco/round/leader.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<std::string> kMembers = {"a", "b", "c", "d", "e", "f"};

ProtocolOptions patient_options() {
  ProtocolOptions options = options_of_a();
  options.grace_min = seconds{2};
  return options;
}

class GatheringTest : public ::testing::Test {
 protected:
  GatheringTest() {
    region_.agreement.start(Time{0});
    for (const std::string& peer : kMembers) {
      if (peer == "a") continue;
      region_.peers.set_up(peer, peer + "'s disk");
      region_.agreement.raft().on_peer_up(peer, peer + "'s disk", Time{0});
    }
    region_.agreement.raft().on_message("b", {"b's disk", AppendEntries{.term = 1, .entries = {}}},
                                        Time{0});
    exchange_.add_own(made_by("a"), Time{0});
    for (const std::string& peer : kMembers)
      if (peer != "a") exchange_.hear(peer, {made_by(peer), 100, true}, Time{0});
    told();
  }

  void arrives(const std::string& region, Time now) {
    exchange_.on_arrived(made_by(region).payload, now);
    exchange_.tell_gathered(now);
  }

  // The leader, since this was asked last: message by message, whose payloads are here.
  std::vector<std::set<std::string>> told() {
    std::vector<std::set<std::string>> messages;
    for (const Action& action : region_.out.take()) {
      const auto* sent = std::get_if<SendMessage>(&action);
      const auto* word = sent == nullptr ? nullptr : std::get_if<Holdings>(&sent->message);
      if (word == nullptr) continue;
      EXPECT_EQ(sent->peer, "b");
      messages.emplace_back();
      for (const Holding& one : word->holdings)
        if (one.received_bytes == 100) messages.back().insert(one.contribution.region);
    }
    return messages;
  }

  Region region_{patient_options(), state_of_a(kMembers)};
  Beginning beginning_{region_};
  Leader leader_{region_, beginning_};
  CatchUp catch_up_{region_};
  Exchange exchange_{region_, leader_, catch_up_};
};

using Messages = std::vector<std::set<std::string>>;

TEST_F(GatheringTest, ArrivalsAreToldWhenTheyAreAsManyAsAreLacking) {
  for (const char* region : {"b", "c"}) arrives(region, Time{1});
  EXPECT_EQ(told(), Messages{});
  arrives("d", Time{2});
  EXPECT_EQ(told(), (Messages{{"b", "c", "d"}}));
  arrives("e", Time{3});
  arrives("f", Time{4});
  EXPECT_EQ(told(), (Messages{{"e"}, {"f"}})) << "the last one at once";
  EXPECT_FALSE(exchange_.gathered_until());
}

TEST_F(GatheringTest, NothingWaitsForMoreThanAQuarterOfTheGrace) {
  arrives("b", seconds{10});
  const auto until = exchange_.gathered_until();
  ASSERT_TRUE(until);
  EXPECT_EQ(*until, milliseconds{10'500});
  exchange_.tell_gathered(*until - Time{1});
  EXPECT_EQ(told(), Messages{});
  exchange_.tell_gathered(*until);
  EXPECT_EQ(told(), (Messages{{"b"}}));
}

// A record might list it meanwhile.
TEST_F(GatheringTest, ALossIsToldAtOnce) {
  arrives("b", Time{1});
  exchange_.on_lost(made_by("b").payload, Time{2});
  exchange_.tell_gathered(Time{2});
  EXPECT_EQ(told(), (Messages{{}})) << "nothing of it is here";
}

TEST_F(GatheringTest, ANewLeaderIsToldAllAtOnce) {
  arrives("b", Time{1});
  exchange_.tell_new_leader(Time{2});
  exchange_.tell_gathered(Time{2});
  EXPECT_EQ(told(), (Messages{{"a", "b"}}));
}

}  // namespace
}  // namespace causeway::diloco
