#include "diloco/log/electorate.h"

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

Membership members(const std::vector<std::string>& regions) {
  Membership membership;
  for (const std::string& region : regions) {
    membership = with(membership, {.region = region, .incarnation = region + "1"});
  }
  return membership;
}

// Seen by "a": the membership is entry 1, committed, and the others are connected.
Electorate electorate(const std::vector<std::string>& regions) {
  Electorate made("a", "a1", PlantedBug::none);
  made.note(1, {.term = 1, .body = members(regions)});
  made.set_committed(1);
  for (const std::string& region : regions) made.connect(region, region + "1");
  return made;
}

TEST(Electorate, AMajorityElectsAndCommits) {
  const Electorate three = electorate({"a", "b", "c"});
  EXPECT_EQ(three.quorum(), 2);
  EXPECT_FALSE(three.may_decide({"a"}));
  EXPECT_TRUE(three.may_decide({"a", "c"}));
  EXPECT_TRUE(three.may_decide({"b", "c"}));
}

TEST(Electorate, OnlyTheIncarnationThatIsNamedVotes) {
  Electorate three = electorate({"a", "b", "c"});
  three.disconnect("c");
  EXPECT_FALSE(three.votes("c"));
  three.connect("c", "c2");
  EXPECT_FALSE(three.votes("c"));
  EXPECT_FALSE(three.may_decide({"a", "c"}));
}

TEST(Electorate, AMinorityOfLostDisksIsNotWaitedFor) {
  Electorate two = electorate({"a", "b"});
  EXPECT_FALSE(two.may_decide({"a"}));
  two.disconnect("b");
  EXPECT_FALSE(two.may_decide({"a"})) << "it is away, with its disk";
  two.connect("b", "b2");
  EXPECT_TRUE(two.may_decide({"a"}));
}

TEST(Electorate, AMajorityOfLostDisksLeavesNobodyWhoCouldDecide) {
  Electorate three = electorate({"a", "b", "c"});
  EXPECT_TRUE(three.lost().empty());
  three.connect("c", "c2");
  EXPECT_EQ(three.lost(), (std::vector<std::string>{"c"}));
  EXPECT_FALSE(three.lost_for_good());
  three.disconnect("b");
  EXPECT_FALSE(three.lost_for_good()) << "it may come back with its disk";
  three.connect("b", "b2");
  EXPECT_EQ(three.lost(), (std::vector<std::string>{"b", "c"}));
  EXPECT_TRUE(three.lost_for_good());
  EXPECT_FALSE(three.may_decide({"a", "b", "c"}));
}

TEST(Electorate, AnAddedVoteNeedsAMajorityOfThoseBeforeItToo) {
  Electorate grown = electorate({"a", "b"});
  grown.note(2, {.term = 1, .body = members({"a", "b", "c"})});
  grown.connect("c", "c1");
  EXPECT_FALSE(grown.settled());
  EXPECT_EQ(grown.replaced()->voters(), 2);
  EXPECT_FALSE(grown.may_decide({"a", "c"})) << "b elects itself if a is lost";
  EXPECT_TRUE(grown.may_decide({"a", "b"}));
  grown.set_committed(2);
  EXPECT_TRUE(grown.settled());
  EXPECT_EQ(grown.replaced(), nullptr);
  EXPECT_TRUE(grown.may_decide({"a", "c"}));
}

TEST(Electorate, WhoeverIsBeingRemovedMayStandUntilThatIsCommitted) {
  Electorate shrunk = electorate({"a", "b", "c"});
  shrunk.note(2, {.term = 1, .body = members({"b", "c"})});
  EXPECT_FALSE(shrunk.votes("a"));
  EXPECT_TRUE(shrunk.may_stand());
  shrunk.set_committed(2);
  EXPECT_FALSE(shrunk.may_stand());
}

TEST(Electorate, WhatTheLogTakesBackCountsNoMore) {
  Electorate undone = electorate({"a", "b", "c"});
  undone.note(2, {.term = 1, .body = members({"b", "c"})});
  undone.truncate_from(2);
  EXPECT_TRUE(undone.votes("a"));
  EXPECT_EQ(undone.membership().voters(), 3);
  EXPECT_TRUE(undone.settled());
}

}  // namespace
}  // namespace causeway::diloco
