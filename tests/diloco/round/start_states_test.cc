// From which state a round starts: regions a, b and c, and what each says that it holds.
#include <cstdint>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "diloco/round/start_states.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

class StartStatesTest : public ::testing::Test {
 protected:
  static constexpr Round kRound = 3;

  StartStatesTest() {
    for (const char* region : {"a", "b", "c"})
      membership_ = with(membership_, {.region = region, .incarnation = "1"});
    states_.open(kRound);
  }
  static Contribution made_from(std::uint8_t state, const std::string& region) {
    Contribution made = made_by(region);
    made.round = kRound;
    made.state = {state};
    return made;
  }
  void contribute(std::uint8_t state, const std::string& region) {
    candidates_.add(made_from(state, region), region, 100);
  }
  bool apply(std::uint8_t state, const std::string& region, Round version = kRound) {
    return states_.set_applied(region, Applied{version, {state}});
  }
  // None: 0.
  int agreed() const {
    const std::optional<Digest> state = states_.agreed(candidates_, membership_);
    return state ? (*state)[0] : 0;
  }
  std::string reject_others() {
    std::string regions;
    for (const Contribution& made :
         states_.reject_others(candidates_, states_.agreed(candidates_, membership_)))
      regions += made.region;
    return regions;
  }

  Membership membership_;
  Candidates candidates_{PlantedBug::none};
  StartStates states_;
};

TEST_F(StartStatesTest, MostOfThoseAtTheRoundAgreeOnOne) {
  EXPECT_EQ(agreed(), 0);
  apply(1, "a");
  EXPECT_EQ(agreed(), 1);
  contribute(2, "b");
  EXPECT_EQ(agreed(), 0);
  EXPECT_FALSE(apply(2, "c", kRound - 1));
  EXPECT_EQ(agreed(), 0) << "it is not there yet";
  apply(2, "c");
  EXPECT_EQ(agreed(), 2);
}

// A contribution is newer than what its worker was last said to hold.
TEST_F(StartStatesTest, ARegionStartsFromWhatItContributedFrom) {
  apply(1, "a");
  contribute(2, "a");
  EXPECT_EQ(agreed(), 2);
  Contribution part = made_from(5, "a");
  part.part = 1;
  candidates_.add(part, "a", 100);
  candidates_.add(made_from(6, "b"), "c", 100);  // b has not said so
  EXPECT_EQ(states_.known(candidates_).size(), 1U);
  EXPECT_EQ(agreed(), 2);
}

TEST_F(StartStatesTest, KnowsWhetherOneRegionStandsAlone) {
  EXPECT_EQ(states_.only_known(candidates_), std::nullopt);
  apply(1, "b", kRound - 1);
  candidates_.add(made_from(6, "b"), "c", 100);  // b has not said so
  apply(1, "a");
  contribute(2, "a");
  EXPECT_EQ(states_.only_known(candidates_), "a");
  contribute(2, "c");
  EXPECT_EQ(states_.only_known(candidates_), std::nullopt);
}

TEST_F(StartStatesTest, AFirstRoundStartsFromTheOriginOfAFork) {
  membership_.origin.emplace().state = {9};
  contribute(1, "a");
  EXPECT_EQ(agreed(), 1);
  states_.open(0);
  EXPECT_EQ(agreed(), 9);
}

TEST_F(StartStatesTest, WhatStartsFromAnotherStateIsRejected) {
  contribute(1, "a");
  contribute(2, "b");
  contribute(1, "c");
  EXPECT_EQ(reject_others(), "b");
  EXPECT_TRUE(states_.rejects(made_from(2, "b")));
  EXPECT_FALSE(states_.rejects(made_from(1, "a")));
  EXPECT_FALSE(states_.tied());
  EXPECT_FALSE(apply(2, "b")) << "it holds that state still";
  EXPECT_TRUE(apply(1, "b")) << "it was healed";
  EXPECT_TRUE(apply(2, "b")) << "this is found out anew";
}

// It has no payload.
TEST_F(StartStatesTest, NoPayloadIsRejectedOfOneThatSitsOut) {
  for (const char* region : {"a", "c"}) contribute(1, region);
  Contribution out = made_from(2, "b");
  out.sits_out = true;
  out.payload = {};
  candidates_.add(out, "b", 0);
  EXPECT_EQ(reject_others(), "b");
  EXPECT_FALSE(states_.rejects(out));
  EXPECT_FALSE(apply(2, "b"));
}

TEST_F(StartStatesTest, AfterATieMostOfAllMustAgree) {
  contribute(1, "a");
  contribute(2, "b");
  EXPECT_EQ(reject_others(), "ab");
  EXPECT_TRUE(states_.tied());
  EXPECT_TRUE(apply(1, "a")) << "it may have been right";
  candidates_ = Candidates(PlantedBug::none);
  EXPECT_EQ(agreed(), 0) << "one of three";
  apply(1, "c");
  EXPECT_EQ(agreed(), 1);
}

TEST_F(StartStatesTest, ATieWithoutContributionsIsNone) {
  apply(1, "a");
  apply(2, "b");
  EXPECT_EQ(reject_others(), "");
  EXPECT_FALSE(states_.tied());
}

TEST_F(StartStatesTest, TheNextRoundKnowsWhoIsThere) {
  contribute(1, "a");
  contribute(2, "b");
  reject_others();
  apply(3, "a", kRound + 1);
  EXPECT_FALSE(states_.is_applied_by("a"));
  states_.open(kRound + 1);
  EXPECT_FALSE(states_.tied());
  EXPECT_FALSE(states_.rejects(made_from(2, "b")));
  EXPECT_TRUE(states_.is_applied_by("a"));
  states_.set_applied("a", std::nullopt);
  EXPECT_FALSE(states_.is_applied_by("a"));
}

TEST_F(StartStatesTest, WhatDivergedInOneRoundIsFoundOutAnewInTheNext) {
  for (const char* region : {"a", "c"}) contribute(1, region);
  contribute(2, "b");
  EXPECT_EQ(reject_others(), "b");
  states_.open(kRound + 1);
  EXPECT_TRUE(apply(2, "b", kRound + 1));
}

}  // namespace
}  // namespace causeway::diloco
