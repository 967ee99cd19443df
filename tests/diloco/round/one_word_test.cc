// With late contributions one region can stand alone at a round: whose word is the state then?
#include <gtest/gtest.h>

#include <chrono>

#include "diloco/round/decider.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

class OneWordTest : public ::testing::Test {
 protected:
  static constexpr Decider::Steps kSteps{.next_k = 4, .since_exchange = 4};

  static Decider decider() { return decider(2, false); }
  static Decider decider(std::size_t contributions_min, bool witness) {
    ProtocolOptions options;
    options.self = "a";
    options.pace = {.steps = 400, .k = 4};
    options.contributions_min = contributions_min;
    options.staleness_max = 2;
    options.grace_min = seconds{1};
    options.grace_max = seconds{30};
    Membership membership;
    for (const char* region : {"a", "b", "c"}) {
      const bool votes_only = witness && region == std::string("c");
      membership = with(membership, {.region = region, .witness = votes_only, .incarnation = "1"});
    }
    return {options, membership, nullptr};
  }

  void give(const std::string& region, Round round, std::uint8_t state, Time now) {
    Contribution made{.run_id = "run", .region = region, .tokens = 100, .data_cursor = 100};
    made.round = round;
    made.delta_norm = 1;
    made.compute_s = 8;
    made.state.fill(state);
    made.payload.size_bytes = 1000;
    made.payload.hash.fill(static_cast<std::uint8_t>(10 * round + region.front()));
    for (const char* holder : {"a", "b", "c"}) decider_.add(made, holder, 1000, now);
  }

  // Round 0 ends without c, whose contribution to it comes late.
  void SetUp() override {
    for (const char* region : {"b", "c"}) decider_.set_up(region, true);
    give("a", 0, 1, Time{0});
    give("b", 0, 1, Time{0});
    decider_.decide(kSteps, Time{0});
    const auto first = decider_.decide(kSteps, decider_.deadline().value()).record;
    ASSERT_TRUE(first);
    decider_.open_next(*first);
    give("c", 0, 1, seconds{100});
    give("b", 1, 66, seconds{100});
  }

  Decider decider_ = decider();
};

TEST_F(OneWordTest, AStateThatOneRegionNamesWaitsForAnother) {
  decider_.decide(kSteps, seconds{100});
  EXPECT_FALSE(decider_.decide(kSteps, seconds{129}).record);
  Applied other{.version = 1};
  other.state.fill(2);
  decider_.set_applied("a", other);
  EXPECT_FALSE(decider_.decide(kSteps, seconds{130}).record);  // one word against another
  EXPECT_TRUE(decider_.tied());
}

TEST_F(OneWordTest, ItWaitsAsLongAsSomebodyElseIsThere) {
  decider_.decide(kSteps, seconds{100});
  EXPECT_FALSE(decider_.deadline());
  EXPECT_FALSE(decider_.decide(kSteps, seconds{1000}).record);
  Applied same{.version = 1};
  same.state.fill(66);
  decider_.set_applied("c", same);
  EXPECT_TRUE(decider_.decide(kSteps, seconds{1001}).record);
}

TEST_F(OneWordTest, WhoIsUnreachableIsNotWaitedFor) {
  Applied own{.version = 1};
  own.state.fill(66);
  decider_.set_applied("a", own);
  decider_.set_up("c", false);
  decider_.decide(kSteps, seconds{100});
  EXPECT_EQ(decider_.deadline(), seconds{102});  // a quarter of a round's compute
}

// With a witness one of two regions may fill a round alone. The other one, which took part in the
// last round, can still say whether it holds the same; but its worker may be gone since.
TEST_F(OneWordTest, OneOfTwoRegionsWithAWitnessWaitsForTheOthersWordAsLongAsForItsWork) {
  decider_ = decider(0, true);
  decider_.set_up("b", true);
  give("a", 0, 1, Time{0});
  decider_.decide(kSteps, Time{0});
  give("b", 0, 1, seconds{10});
  const auto first = decider_.decide(kSteps, seconds{10}).record;
  ASSERT_TRUE(first);
  const Time grace = std::chrono::milliseconds{first->next_grace_ms};
  ASSERT_GT(grace, seconds{2}) << "or it is no longer than a quarter of a round's compute";
  decider_.open_next(*first);
  give("a", 1, 66, seconds{100});
  EXPECT_FALSE(decider_.decide(kSteps, seconds{100}).record);
  EXPECT_EQ(decider_.deadline(), seconds{100} + grace);
  EXPECT_TRUE(decider_.decide(kSteps, seconds{100} + grace).record);
}

}  // namespace
}  // namespace causeway::diloco
