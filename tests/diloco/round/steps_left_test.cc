// A region that nobody answers takes no more steps than the run had left, and says what to do:
// members a and others, of which none can be reached.
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
#include "diloco/round/catch_up.h"
#include "diloco/round/exchange.h"
#include "diloco/round/leader.h"
#include "diloco/round/run_end.h"
#include "diloco/round/waiting_for.h"
#include "diloco/round/worker_orders.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Region a, of a run of 400 steps with K = 4.
struct Alone {
  explicit Alone(PersistentState state, ProtocolOptions options = options_of_a())
      : region(std::move(options), std::move(state)) {
    region.agreement.start(Time{0});
  }

  // It holds version 0 and contributed to round 0, and asks what to do.
  void contribute() {
    region.worker.attach({}, std::nullopt);
    orders.welcome();
    exchange.add_own(made_by("a"), now);
  }
  // It took so many steps since. None: it is told to wait.
  std::optional<OrderContinue> ask(std::uint32_t steps) {
    region.worker.ask(steps);
    region.out.take();
    orders.instruct(now);
    std::optional<OrderContinue> told;
    for (const Action& action : region.out.take())
      if (const auto* more = std::get_if<OrderContinue>(&action)) told = *more;
    return told;
  }
  std::string waiting() const {
    return waiting_for(region, leader, beginning, data_check, end, now);
  }

  const Time now = seconds{20};  // it is cut off for long enough
  Region region;
  Beginning beginning{region};
  Leader leader{region, beginning};
  CatchUp catch_up{region};
  Exchange exchange{region, leader, catch_up};
  DataCheck data_check{region};
  WorkerOrders orders{region, leader, catch_up, beginning, data_check};
  RunEnd end{region, leader, catch_up};
};

TEST(StepsLeft, ACutOffRegionTakesNoMoreThanTheRunHad) {
  Alone a(state_of_a({"a", "b"}));
  a.contribute();
  std::optional<OrderContinue> told = a.ask(4);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->k, 4U);
  EXPECT_THAT(a.waiting(), EndsWith("; training goes on meanwhile"));
  told = a.ask(398);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->k, 2U);
  EXPECT_FALSE(a.ask(400));
  EXPECT_FALSE(a.ask(500)) << "an earlier version took them";
}

TEST(StepsLeft, TheyCountFromTheVersionThatTheRegionHolds) {
  const Alone a(state_of_a({"a", "b"}, 1));
  ASSERT_TRUE(a.orders.steps_from(1, 395));
  EXPECT_EQ(a.orders.steps_from(1, 395)->k, 1U);
  EXPECT_FALSE(a.orders.steps_from(1, 396));
  EXPECT_TRUE(a.orders.steps_from(0, 396)) << "it holds the version before";
}

TEST(StepsLeft, WhoHasNoneSaysThatTheRunMayBeOverAndWhatToDo) {
  Alone a(state_of_a({"a", "b"}));
  a.contribute();
  ASSERT_FALSE(a.ask(400));
  EXPECT_THAT(a.waiting(), HasSubstr("a majority of the regions to agree on a leader (1 vote seems "
                                     "within reach, 2 are needed; unreachable: b). This region"));
  EXPECT_THAT(a.waiting(), HasSubstr("This region has taken all steps that the run had left"));
  EXPECT_THAT(a.waiting(), EndsWith("start the coordinator of one of them again, to tell this "
                                    "region the end"));
  EXPECT_THAT(a.waiting(), Not(HasSubstr("training goes on")));
}

// One coordinator has one vote.
TEST(StepsLeft, AsManyCoordinatorsAreToBeStartedAsVotesAreMissing) {
  Alone a(state_of_a({"a", "b", "c", "d", "e"}));
  a.contribute();
  ASSERT_FALSE(a.ask(400));
  EXPECT_THAT(a.waiting(), HasSubstr("start the coordinators of 2 of them again"));
  a.region.peers.set_up("b", "b's disk");
  a.region.agreement.raft().on_peer_up("b", "b's disk", a.now);
  EXPECT_THAT(a.waiting(), HasSubstr("start the coordinator of one of them again"));
  a.region.peers.set_up("c", "c's disk");
  a.region.agreement.raft().on_peer_up("c", "c's disk", a.now);
  EXPECT_THAT(a.waiting(), Not(HasSubstr("again"))) << "a leader can be elected";
}

TEST(StepsLeft, AWitnessThatNobodyAnswersSaysWhatToDo) {
  ProtocolOptions options = options_of_a();
  options.witness = true;
  const Alone a(state_of_a({"a", "b", "c"}), options);
  EXPECT_THAT(a.waiting(), EndsWith("If the others have ended meanwhile, start the coordinator of "
                                    "one of them again, to tell this witness the end"));
}

// The only round is decided.
PersistentState state_at_the_end() {
  return state_of_a({"a", "b"}, 1, [](Round) {
    return std::vector<Participant>{
        {.region = "b", .weight = 1, .data_cursor = 16, .payload = made_by("b").payload}};
  });
}
ProtocolOptions options_of_one_round() {
  ProtocolOptions options = options_of_a();
  options.pace.steps = options.pace.k;
  return options;
}

TEST(StepsLeft, WhoHasTheLastRecordAndNotItsPayloadsSaysWhatToDo) {
  Alone a(state_at_the_end(), options_of_one_round());
  ASSERT_TRUE(a.region.history.over());
  a.region.worker.attach({}, std::nullopt);
  a.orders.welcome();
  a.catch_up.fetch(a.now);
  EXPECT_FALSE(a.ask(4));
  EXPECT_THAT(a.waiting(), EndsWith("start the coordinator of one of them again: it has what is "
                                    "missing here"));
  a.region.peers.set_up("b", "b's disk");
  EXPECT_THAT(a.waiting(), Not(HasSubstr("again")));
}

// So that somebody hears of the end from it. Its worker has its result, and does not come.
TEST(StepsLeft, ACoordinatorThatIsStartedAgainAtTheEndWaitsForTheOthersAlone) {
  PersistentState state = state_at_the_end();
  state.finished = Applied{.version = 1, .state = {}};
  const Alone a(std::move(state), options_of_one_round());
  EXPECT_EQ(
      a.waiting(),
      "the other regions to reach the last round (b), which may have ended: for 10 s at most");
  const Alone killed_before(state_at_the_end(), options_of_one_round());
  EXPECT_EQ(killed_before.waiting(), "this region's workers");
}

}  // namespace
}  // namespace causeway::diloco
