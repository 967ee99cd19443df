#include "diloco/region/data_plan.h"

#include <utility>

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

Membership members(std::initializer_list<const char*> names) {
  Membership membership;
  for (const char* name : names) {
    Member member;
    member.region = name;
    membership = with(membership, std::move(member));
  }
  return membership;
}

CommitRecord record(std::initializer_list<const char*> regions, std::uint64_t cursor_of_b = 0) {
  CommitRecord made;
  for (const char* name : regions) made.standings.push_back({.region = name});
  if (cursor_of_b > 0) {
    Participant listed;
    listed.region = "b";
    listed.data_cursor = cursor_of_b;
    made.participants.push_back(std::move(listed));
  }
  return made;
}

TEST(DataPlan, TheFirstMembersShareTheData) {
  DataPlan plan("b");
  plan.begin(members({"a", "b", "c"}));
  plan.begin(members({"a", "b", "c", "d"}));  // the log's second word on members
  EXPECT_EQ(plan.share(), (DataShare{.index = 1, .count = 3}));
}

TEST(DataPlan, ARegionWithDataOfItsOwnReadsAllOfItWhoeverComesAndGoes) {
  DataPlan plan("b", true);
  plan.begin(members({"a", "b", "c"}));
  EXPECT_EQ(plan.share(), (DataShare{.index = 0, .count = 1}));
  plan.add(record({"a", "b"}, 40));
  EXPECT_EQ(plan.share(), (DataShare{.index = 0, .count = 1}));
  EXPECT_EQ(plan.cursor(), 40U);
}

TEST(DataPlan, WhoeverNoRecordNamesHasNoShareYet) {
  DataPlan plan("d");
  plan.begin(members({"a", "b", "c"}));
  EXPECT_FALSE(plan.share());
  plan.add(record({"a", "b", "c"}));
  EXPECT_FALSE(plan.share());
  plan.add(record({"a", "b", "c", "d"}));
  EXPECT_EQ(plan.share(), (DataShare{.index = 3, .count = 4, .pass = 1, .begin = 0}));
}

TEST(DataPlan, ARecordThatNamesOtherRegionsBeginsANewPass) {
  DataPlan plan("b");
  plan.begin(members({"a", "b", "c"}));
  plan.add(record({"a", "b", "c"}, 30));
  EXPECT_EQ(plan.share(), (DataShare{.index = 1, .count = 3}));
  plan.add(record({"b", "c"}, 60));
  EXPECT_EQ(plan.share(), (DataShare{.index = 0, .count = 2, .pass = 1, .begin = 60}));
  plan.add(record({"b", "c"}, 90));
  EXPECT_EQ(plan.share()->begin, 60);
}

TEST(DataPlan, IsTheSameWhateverTheRegionRemembersItself) {
  DataPlan first("b"), second("b");
  for (DataPlan* plan : {&first, &second}) {
    plan->begin(members({"a", "b"}));
    plan->add(record({"a", "b"}, 30));
    plan->add(record({"a", "b", "c"}, 60));
  }
  EXPECT_EQ(first.share(), second.share());
}

}  // namespace

}  // namespace causeway::diloco
