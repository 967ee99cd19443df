// What a member says in another one's name, which a lying one makes up: nobody could ever get it,
// or nobody trained it. It counts for who holds what, and for nothing else.
#include <chrono>

#include "tests/diloco/round/decider_fixture.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

class Hearsay : public DeciderTest {};

TEST_F(Hearsay, ListsNothingOnTheWordOfOneThatSpeaksForAnother) {
  for (const bool away : {false, true}) {
    decider_ = Decider(options(2), membership(), nullptr);
    for (const char* region : {"b", "c"}) decider_.set_up(region, true);
    if (away) decider_.set_up("b", false);
    give(contribution("a"));
    give(contribution("c"));
    decider_.add(contribution("b"), "c", 1000, Time{0});
    decider_.add(contribution("b"), "a", 1000, Time{0});
    decide(Time{0});
    const auto record = decide(decider_.deadline().value()).record;
    ASSERT_TRUE(record && record->participants.size() == 2) << away;
  }
}

TEST_F(Hearsay, StartsNoGracePeriodOnTheWordOfOneThatSpeaksForAnother) {
  decider_.add(contribution("b"), "c", 1000, Time{0});
  decider_.add(contribution("a"), "c", 1000, Time{0});
  give(contribution("c"));
  EXPECT_FALSE(decide(Time{0}).record);
  EXPECT_FALSE(decider_.deadline());
}

TEST_F(Hearsay, TakesNoStateForThatOfARegionWhichAnotherSpeaksFor) {
  decider_.set_up("c", false);
  decider_.set_applied("a", Applied{0, contribution("a").state});
  give(contribution("a", 100, 1));
  give(contribution("b", 100, 2));
  decider_.add(contribution("c", 100, 2), "b", 1000, Time{0});
  decide(Time{0});
  const Decider::Verdict verdict = decide(decider_.deadline().value());
  EXPECT_FALSE(verdict.record);
  EXPECT_TRUE(decider_.tied());
}

// Else its own word would be refused when it comes.
TEST_F(Hearsay, RejectsNoPayloadForWhatAnotherSaysOfIt) {
  decider_.add(contribution("c", 100, 2), "b", 1000, Time{0});
  give(contribution("a"));
  give(contribution("b"));
  decide(Time{0});
  EXPECT_TRUE(decide(decider_.deadline().value()).diverged.empty());
  EXPECT_FALSE(decider_.rejects(contribution("c")));
}

TEST_F(Hearsay, NobodySitsOutOnTheWordOfAnother) {
  decider_.set_up("c", false);
  const auto sits_out = [this](const char* region, const char* speaker) {
    Contribution out = contribution(region);
    out.sits_out = true;
    out.payload = {};
    decider_.add(out, speaker, 0, Time{0});
  };
  give(contribution("a"));
  sits_out("b", "b");
  sits_out("c", "b");
  EXPECT_FALSE(decide(seconds{100}).record) << "a round without anybody's work";
}

TEST_F(Hearsay, CountsNoCostOnTheWordOfAnother) {
  ProtocolOptions limited = options(2);
  limited.k_policy.budget.total = 100;
  decider_ = Decider(limited, membership(), nullptr);
  for (const char* region : {"b", "c"}) decider_.set_up(region, true);
  for (const char* region : {"a", "b", "c"}) {
    Contribution made = contribution(region);
    made.egress_cost = 2;
    give(made);
  }
  Contribution lie = contribution("c");
  lie.part = 7;
  lie.egress_cost = 1e15;
  decider_.add(lie, "b", 1000, Time{0});
  const auto record = decide(Time{0}).record;
  ASSERT_TRUE(record);
  ASSERT_EQ(record->egress.size(), 3);
  for (const EgressCost& region : record->egress) EXPECT_EQ(region.cost, 2) << region.region;
}

TEST_F(Hearsay, LearnsNoSpeedOnTheWordOfAnother) {
  Contribution lie = contribution("c");
  lie.steps = 4;
  lie.compute_s = 1e6;
  decider_.add(lie, "b", 1000, Time{0});
  give(contribution("a"));
  give(contribution("b"));
  decide(Time{0});
  EXPECT_TRUE(decide(decider_.deadline().value()).record);
  EXPECT_FALSE(decider_.knows_speed("c"));
}

}  // namespace
}  // namespace causeway::diloco
