#include "diloco/round/barren_rounds.h"

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

constexpr Time kGoodbyeOfTest = seconds{10}, kPatienceOfTest = seconds{80};

TEST(BarrenRounds, EndTheRunWhenThereAreThreeAndTheOthersHaveHeard) {
  BarrenRounds rounds(kGoodbyeOfTest);
  for (Round count = 1; count <= 2; ++count) rounds.add_record(count, seconds{count});
  EXPECT_FALSE(rounds.too_many());
  EXPECT_FALSE(rounds.ends_at());
  rounds.add_record(3, seconds{5});
  EXPECT_TRUE(rounds.too_many());
  EXPECT_EQ(rounds.ends_at(), seconds{15});
  rounds.add_record(4, seconds{12});
  EXPECT_EQ(rounds.ends_at(), seconds{15}) << "another one does not put it off";
  EXPECT_EQ(rounds.count(), 4U);
}

TEST(BarrenRounds, AreForgottenWithARecordThatListsSomething) {
  BarrenRounds rounds(kGoodbyeOfTest);
  rounds.add_record(3, Time{0});
  rounds.add_record(0, seconds{1});
  EXPECT_FALSE(rounds.ends_at());
  EXPECT_FALSE(rounds.too_many());
}

TEST(BarrenRounds, ThatDidNotEndTheRunCountWithThoseAfterAStart) {
  BarrenRounds rounds(kGoodbyeOfTest);
  EXPECT_FALSE(rounds.start(2));
  EXPECT_FALSE(rounds.awaits_others());
  rounds.add_record(3, seconds{5});
  EXPECT_EQ(rounds.ends_at(), seconds{15});
}

// All regions were started again, with other settings perhaps.
TEST(BarrenRounds, ThatEndedTheRunLeaveThreeMoreToThoseAfterAStart) {
  BarrenRounds rounds(kGoodbyeOfTest);
  EXPECT_TRUE(rounds.start(3));
  EXPECT_TRUE(rounds.awaits_others());
  for (Round count = 4; count <= 5; ++count) rounds.add_record(count, seconds{count});
  EXPECT_FALSE(rounds.awaits_others()) << "the run goes on";
  EXPECT_FALSE(rounds.ends_at());
  rounds.add_record(6, seconds{9});
  EXPECT_EQ(rounds.ends_at(), seconds{19});
}

TEST(BarrenRounds, AfterARoundThatListsSomethingThreeEndTheRunAgain) {
  BarrenRounds rounds(kGoodbyeOfTest);
  ASSERT_TRUE(rounds.start(5));
  rounds.add_record(0, Time{0});
  EXPECT_FALSE(rounds.awaits_others());
  EXPECT_FALSE(rounds.ends_at());
  rounds.add_record(3, Time{0});
  EXPECT_EQ(rounds.ends_at(), kGoodbyeOfTest);
}

TEST(BarrenRounds, WaitForOthersOnlySoLongAsTheyStayAway) {
  BarrenRounds rounds(kGoodbyeOfTest);
  ASSERT_TRUE(rounds.start(3));
  rounds.look_for_others(false, kPatienceOfTest, seconds{1});
  EXPECT_EQ(rounds.ends_at(), seconds{81});
  rounds.look_for_others(false, kPatienceOfTest, seconds{40});
  EXPECT_EQ(rounds.ends_at(), seconds{81});
  rounds.look_for_others(true, kPatienceOfTest, seconds{50});
  EXPECT_FALSE(rounds.ends_at());
  EXPECT_TRUE(rounds.awaits_others()) << "they may be about to end";
  rounds.look_for_others(false, kPatienceOfTest, seconds{55});
  EXPECT_EQ(rounds.ends_at(), seconds{135}) << "they were";
  rounds.look_for_others(true, kPatienceOfTest, seconds{100});
  EXPECT_TRUE(rounds.awaits_others()) << "these have just come";
}

TEST(BarrenRounds, HaveMetTheOthersWhenTheseStay) {
  BarrenRounds rounds(kGoodbyeOfTest);
  ASSERT_TRUE(rounds.start(3));
  rounds.look_for_others(true, kPatienceOfTest, seconds{1});
  rounds.look_for_others(true, kPatienceOfTest, seconds{11});
  EXPECT_TRUE(rounds.awaits_others());
  rounds.look_for_others(true, kPatienceOfTest, seconds{11} + Time{1});
  EXPECT_FALSE(rounds.awaits_others());
  EXPECT_FALSE(rounds.ends_at());
}

}  // namespace
}  // namespace causeway::diloco
