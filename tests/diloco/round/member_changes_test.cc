// Which changes of the members a leader proposes, and which it refuses.
#include "diloco/round/member_changes.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/diloco/round/machines_fixture.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

using MemberChangesTest = MachinesTest;

Member member(const std::string& region) {
  Member one;
  one.region = region;
  one.incarnation = region + "'s disk";
  return one;
}

TEST_F(MemberChangesTest, AreProposedOnce) {
  MemberChanges changes(region_, beginning_);
  EXPECT_FALSE(changes.next(Time{0}));
  changes.ask({.member = member("b")}, region_.options.self);  // a member already
  changes.ask({.member = member("c")}, region_.options.self);
  const std::optional<Membership> next = changes.next(Time{0});
  ASSERT_TRUE(next);
  ASSERT_NE(next->find("c"), nullptr);
  EXPECT_EQ(next->find("c")->incarnation, "");  // no vote before it has caught up
  EXPECT_FALSE(changes.next(Time{0}));
}

// One member alone cannot make the run depend on it, however often it asks.
TEST_F(MemberChangesTest, OfOneMemberLeaveTheOthersAMajority) {
  MemberChanges changes(region_, beginning_);
  for (int i = 0; i < 300; ++i) {
    changes.ask({.member = member("new" + std::to_string(i)), .remove = i % 2 == 0}, "b");
  }
  changes.ask({.member = {.region = "a", .witness = true}}, "b");  // as it is, but a witness
  std::size_t added = 0;
  while (const std::optional<Membership> next = changes.next(Time{0})) {
    EXPECT_NE(next->find("a"), nullptr);
    EXPECT_FALSE(next->find("a")->witness);
    ++added;
    if (added > 300) break;
  }
  EXPECT_LE(added, 8U);
}

// The log keeps all of them.
TEST_F(MemberChangesTest, ByOneMembersWordComeSlowly) {
  MemberChanges changes(region_, beginning_);
  int asked = 0, proposed = 0;
  const auto propose_all = [&](const std::string& by, Time now) {
    for (int i = 0; i < 100; ++i) {
      changes.ask({.member = {.region = "b", .address = "there:" + std::to_string(++asked)}}, by);
      if (changes.next(now)) ++proposed;
    }
    return std::exchange(proposed, 0);
  };
  EXPECT_EQ(propose_all("b", seconds{1}), 64);
  EXPECT_EQ(propose_all("b", seconds{30}), 0);
  EXPECT_EQ(propose_all("b", seconds{92}), 3);
  EXPECT_EQ(propose_all(region_.options.self, seconds{92}), 100);
}

// The log of the run does not say who added it, and a member may lie.
TEST_F(MemberChangesTest, SayWhoAskedForThem) {
  MemberChanges changes(region_, beginning_);
  const auto told = [&](const ChangeMember& change, const std::string& by) {
    changes.ask(change, by);
    EXPECT_TRUE(changes.next(Time{0}));
    std::string text;
    for (const Note& note : taken<Note>()) text += note.text;
    return text;
  };
  EXPECT_EQ(told({.member = member("new")}, "b"),
            "as b asked for it, new is added to the run. If it is not to be, `causeway members "
            "remove new`");
  EXPECT_EQ(told({.member = {.region = "b", .address = "there:1"}}, "b"),
            "as b asked for it, the address of b is now \"there:1\"");
  EXPECT_EQ(told({.member = member("b"), .remove = true}, "b"),
            "as b asked for it, b is taken out of the run");
  EXPECT_EQ(told({.member = member("own")}, region_.options.self), "") << "its operator knows";
}

// Not by the operator who forgets --witness, and not by the member itself.
TEST_F(MemberChangesTest, LeaveAMemberItsRole) {
  MemberChanges changes(region_, beginning_);
  for (const std::string& by : {region_.options.self, std::string("b")}) {
    changes.ask({.member = {.region = "b", .address = "there:1", .witness = true}}, by);
    EXPECT_FALSE(changes.next(Time{0})) << by;
    const std::vector<Note> notes = taken<Note>();
    ASSERT_EQ(notes.size(), 1U) << by;
    EXPECT_NE(notes[0].text.find("`causeway members remove b`"), std::string::npos);
  }
  changes.ask({.member = {.region = "b", .address = "there:1"}}, "b");
  const std::optional<Membership> next = changes.next(Time{0});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->find("b")->address, "there:1");
  EXPECT_FALSE(next->find("b")->witness);
  EXPECT_EQ(next->find("b")->incarnation, "b's disk");
}

// It would stay in every log, and a message with some of these is too long to be sent.
TEST_F(MemberChangesTest, TakeNothingThatCanBeNoNameOrAddress) {
  MemberChanges changes(region_, beginning_);
  const std::string longest_address = std::string(294, 'x') + ":12345";
  const std::vector<Member> lies = {{.region = std::string(64, 'x')},
                                    {.region = "new\nline"},
                                    {.region = "../new"},
                                    {.region = ""},
                                    {.region = "b", .address = longest_address + "6"},
                                    {.region = "b", .address = "two\nlines:1"}};
  for (const Member& lie : lies) {
    changes.ask({.member = lie}, "b");
    EXPECT_FALSE(changes.next(Time{0})) << lie.region;
    EXPECT_EQ(taken<Note>().size(), 1U) << lie.region;
  }
  changes.ask({.member = {.region = "b", .address = longest_address}}, "b");
  EXPECT_TRUE(changes.next(Time{0}));
  changes.ask({.member = {.region = std::string(63, 'x')}}, "b");
  EXPECT_TRUE(changes.next(Time{0}));
}

TEST_F(MemberChangesTest, TakeTheVoteOfALostDisk) {
  region_.peers.set_up("b", "b's new disk");
  MemberChanges changes(region_, beginning_);
  const std::optional<Membership> next = changes.next(Time{0});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->find("b")->incarnation, "");
}

}  // namespace
}  // namespace causeway::diloco
