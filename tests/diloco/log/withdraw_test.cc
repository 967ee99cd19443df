#include "diloco/log/withdraw.h"

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

CommitRecord record_of_round_7() {
  CommitRecord record;
  record.run_id = "run";
  record.round = 7;
  record.next_k = 4;
  record.participants = {{.region = "a", .round = 7, .weight = 0.5F},
                         {.region = "b", .round = 6, .weight = 0.125F},
                         {.region = "b", .round = 7, .weight = 0.25F}};
  return record;
}

TEST(Withdraw, TheWeightsThatAreLeftKeepTheirSumAndTheirRatios) {
  const CommitRecord left = withdraw(record_of_round_7(), {{"a", 7, 0}}, 0);
  ASSERT_EQ(left.participants.size(), 2U);
  EXPECT_FLOAT_EQ(left.participants[0].weight + left.participants[1].weight, 0.875F);
  EXPECT_EQ(left.participants[1].weight, 2 * left.participants[0].weight);
  ASSERT_EQ(left.withdrawn.size(), 1U);
  EXPECT_EQ(left.withdrawn[0].region, "a");
  EXPECT_EQ(left.withdrawn[0].weight, 0.5F);
  EXPECT_EQ(left.next_k, 4U);
}

TEST(Withdraw, ARoundThatLosesAllListsNothing) {
  const CommitRecord left =
      withdraw(record_of_round_7(), {{"a", 7, 0}, {"b", 6, 0}, {"b", 7, 0}}, 0);
  EXPECT_TRUE(left.participants.empty());
  EXPECT_EQ(left.withdrawn.size(), 3U);
}

TEST(Withdraw, ARecordThatTakesSomethingOutSurvivesTheWire) {
  const CommitRecord left = withdraw(record_of_round_7(), {{"b", 6, 0}}, 3);
  const CommitRecord read = parse_commit_record(serialize(left));
  EXPECT_EQ(serialize(read), serialize(left));
  EXPECT_EQ(read.revision, 3U);
  ASSERT_EQ(read.withdrawn.size(), 1U);
  EXPECT_EQ(read.withdrawn[0].round, 6U);
}

TEST(Records, AProofSurvivesTheWireAndIsNoByteWhereThereIsNone) {
  Contribution made;
  made.region = "a";
  const std::size_t without = serialize(made).size();
  made.proof = sha256({});
  EXPECT_EQ(serialize(made).size(), without + 3 + made.proof->size());
  EXPECT_EQ(parse_contribution(serialize(made)).proof, made.proof);
  CommitRecord record = record_of_round_7();
  const std::string before = serialize(record);
  EXPECT_FALSE(parse_commit_record(before).participants[0].proof);
  record.participants[0] = participant_of(made, 0.5F);
  const CommitRecord read = parse_commit_record(serialize(record));
  EXPECT_EQ(read.participants[0].proof, made.proof);
  EXPECT_FALSE(read.participants[1].proof);
}

TEST(Withdraw, WhatARecordDoesFollowsFromTheLogAlone) {
  const CommitRecord record = record_of_round_7();
  EXPECT_EQ(effect_of(record, 7, 0), Effect::next);
  EXPECT_EQ(effect_of(record, 8, 0), Effect::none) << "decided twice";
  EXPECT_EQ(effect_of(record, 7, 1), Effect::none) << "decided before something was taken back";
  const CommitRecord left = withdraw(record, {{"a", 7, 0}}, 1);
  EXPECT_EQ(effect_of(left, 9, 1), Effect::replaces) << "two later rounds are void";
  EXPECT_EQ(effect_of(left, 8, 0), Effect::none);
  EXPECT_EQ(effect_of(left, 8, 2), Effect::none) << "taken back twice";
  EXPECT_EQ(effect_of(left, 7, 1), Effect::none) << "there is nothing to take it out of";
}

}  // namespace

}  // namespace causeway::diloco
