// What may be listed, and who has how much of it: regions a, b and c, and payloads of 100 bytes.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "diloco/round/candidates.h"
#include "tests/diloco/round/region_a.h"

namespace causeway::diloco {
namespace {

TEST(Candidates, CountAsHoldersWhoHasAllOfThePayload) {
  Candidates candidates(PlantedBug::none);
  const Contribution made = made_by("b");
  EXPECT_FALSE(candidates.add(made, "a", 100)) << "b has not said so itself";
  EXPECT_FALSE(candidates.is_own_word(candidates.at(key_of(made))));
  EXPECT_TRUE(candidates.add(made, "b", 100));
  EXPECT_TRUE(candidates.add(made, "c", 40));
  const Candidates::Candidate& known = candidates.at(key_of(made));
  EXPECT_EQ(known.holders, (std::set<std::string>{"a", "b"}));
  EXPECT_TRUE(candidates.is_obtainable(known, 2, {"a"}));
  EXPECT_FALSE(candidates.is_obtainable(known, 2, {"c"})) << "nobody who has it can be asked";
  EXPECT_FALSE(candidates.is_obtainable(known, 3, {"a"}));
  candidates.add(made, "a", 60);
  EXPECT_EQ(known.holders, std::set<std::string>{"b"}) << "a lost some of it";
}

TEST(Candidates, AreNotReplacedByWhatOthersSay) {
  Candidates candidates(PlantedBug::none);
  const Contribution made = made_by("b");
  Contribution other = made;
  other.payload.hash[1] = 1;
  candidates.add(made, "b", 100);
  EXPECT_FALSE(candidates.add(other, "a", 100));
  EXPECT_EQ(candidates.at(key_of(made)).contribution.payload, made.payload);
  candidates.add(other, "b", 100);
  EXPECT_EQ(candidates.at(key_of(made)).contribution.payload, other.payload);
}

TEST(Candidates, LeaveWithTheRecordThatSettlesThem) {
  Candidates candidates(PlantedBug::none);
  Contribution listed = made_by("a"), astray = made_by("b"), open = made_by("c");
  listed.round = astray.round = open.round = 3;
  astray.state[0] = 1;
  for (const Contribution& made : {listed, astray, open}) candidates.add(made, made.region, 100);
  CommitRecord record;
  record.round = 3;
  record.participants.resize(1);
  record.participants[0].region = "a";
  record.participants[0].round = 3;
  candidates.settle(record);
  EXPECT_EQ(candidates.find(key_of(listed)), nullptr);
  EXPECT_EQ(candidates.find(key_of(astray)), nullptr) << "it was made from another state";
  EXPECT_NE(candidates.find(key_of(open)), nullptr);
  record.expired_before = 4;
  candidates.settle(record);
  EXPECT_TRUE(candidates.all().empty());
}

TEST(HoldersRequired, AreFewerOfThoseWithinReachOnlyWhenHurried) {
  Membership membership;
  for (const char* region : {"a", "b", "c", "d", "e"})
    membership = with(membership, {.region = region, .incarnation = "1"});
  EXPECT_EQ(holders_required(membership, {"a"}, false), 3U) << "two may fail";
  EXPECT_EQ(holders_required(membership, {"a", "b", "c", "d", "e"}, true), 3U);
  membership = with(membership, {.region = "f", .witness = true, .incarnation = "1"});
  membership = with(membership, {.region = "g", .witness = true, .incarnation = "1"});
  EXPECT_EQ(holders_required(membership, {"a"}, false), 4U);
  EXPECT_EQ(holders_required(membership, {"a", "b"}, true), 2U)
      << "every majority of 7 votes, 2 of them of witnesses, has two regions";
  EXPECT_EQ(holders_required(membership, {"a", "b", "c"}, true), 3U);
}

}  // namespace
}  // namespace causeway::diloco
