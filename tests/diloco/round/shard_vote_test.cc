#include "diloco/round/shard_vote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace causeway::diloco {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Up = std::set<std::string>;
constexpr Time kPatience = seconds{5};
const Up kAll{"a", "b", "c", "d"};

inter::BlobId sum_named(const std::string& content) {
  return {.hash = sha256(std::as_bytes(std::span(content))), .size_bytes = 100};
}

// Regions a to d: a and b sum shard 0, b and c shard 1.
class ShardVoteTest : public ::testing::Test {
 protected:
  static CommitRecord record() {
    CommitRecord record;
    record.run_id = "run";
    record.round = 7;
    for (const char* region : {"a", "b", "c", "d"})
      record.participants.push_back({.region = region, .round = 7, .weight = 0.25F});
    return record;
  }
  static Summers summers() {
    CommitRecord last = record();
    Membership membership;
    for (const std::string& region : kAll) membership = with(membership, {.region = region});
    return {&last, membership};
  }
  ShardVote vote(std::uint32_t shards) const {
    return {record(), shards, summers(), kPatience, Time{0}};
  }

  static ShardSums word(std::uint32_t shard, const std::string& sum) {
    return {.round = 7, .draft = draft_digest(record()), .sums = {{shard, sum_named(sum)}}};
  }
  static ShardSums word_of_all(const std::vector<inter::BlobId>& sums) {
    ShardSums word{.round = 7, .draft = draft_digest(record()), .sums = {}};
    word.held = whole_of(sums).hash;
    return word;
  }

  ShardVote one_ = vote(1);
};

std::vector<Draft::Duty> duty(std::uint32_t shard, const std::string& region) {
  return {{.shard = shard, .region = region}};
}

// ---- What settles it ----

TEST_F(ShardVoteTest, TwoThatSayTheSameSettleIt) {
  EXPECT_FALSE(one_.settle(kAll, Time{0}));
  one_.hear("a", word(0, "x"), Time{0});
  EXPECT_FALSE(one_.settle(kAll, Time{0})) << "one word";
  one_.hear("b", word(0, "x"), Time{0});
  EXPECT_FALSE(one_.settled());
  EXPECT_TRUE(one_.settle(kAll, Time{0}));
  EXPECT_TRUE(one_.settled());
  EXPECT_THAT(one_.draft().record.sums, ElementsAre(sum_named("x")));
  EXPECT_THAT(one_.draft().duties, IsEmpty());
}

TEST_F(ShardVoteTest, EveryShardMustBeKnown) {
  ShardVote vote = this->vote(2);
  for (const char* region : {"a", "b"}) vote.hear(region, word(0, "x"), Time{0});
  EXPECT_FALSE(vote.settle(kAll, Time{0}));
  EXPECT_THAT(vote.draft().record.sums, IsEmpty());
  for (const char* region : {"b", "c"}) vote.hear(region, word(1, "y"), Time{0});
  EXPECT_TRUE(vote.settle(kAll, Time{0}));
  EXPECT_THAT(vote.draft().record.sums, ElementsAre(sum_named("x"), sum_named("y")));
}

TEST_F(ShardVoteTest, TwoThatDisagreeHaveAThirdAskedAndTheMajorityWins) {
  one_.hear("a", word(0, "lie"), Time{0});
  one_.hear("b", word(0, "truth"), Time{0});
  EXPECT_FALSE(one_.settle(kAll, Time{0}));
  EXPECT_TRUE(one_.look(kAll, Time{0}));
  EXPECT_EQ(one_.draft().duties, duty(0, "c"));
  EXPECT_FALSE(one_.look(kAll, Time{0})) << "c has just been asked";
  EXPECT_FALSE(one_.settle(kAll, kPatience)) << "two words that differ never count";
  one_.hear("c", word(0, "truth"), Time{0});
  EXPECT_TRUE(one_.settle(kAll, Time{0}));
  EXPECT_THAT(one_.draft().record.sums, ElementsAre(sum_named("truth")));
}

// All have spoken, and there is nobody left to ask.
TEST_F(ShardVoteTest, ATieOfAllThatCanBeAskedIsDecidedAllTheSame) {
  one_.hear("a", word(0, "w"), Time{0});
  one_.hear("b", word(0, "x"), Time{0});
  EXPECT_TRUE(one_.look(kAll, Time{0}));
  one_.hear("c", word(0, "y"), Time{0});
  EXPECT_TRUE(one_.look(kAll, Time{0}));
  EXPECT_FALSE(one_.settle(kAll, Time{0})) << "d may decide it";
  one_.hear("d", word(0, "z"), Time{0});
  EXPECT_FALSE(one_.look(kAll, Time{0}));
  EXPECT_TRUE(one_.settle(kAll, Time{0}));
}

// Of five that can be asked: more of them may yet say something else.
TEST_F(ShardVoteTest, HalfOfTheWordsAreNoMajority) {
  CommitRecord last = record();
  last.participants.push_back({.region = "e", .round = 7});
  const Up all{"a", "b", "c", "d", "e"};
  ShardVote vote(record(), 1, Summers(&last, {}), kPatience, Time{0});
  vote.hear("a", word(0, "x"), Time{0});
  vote.hear("b", word(0, "y"), Time{0});
  ASSERT_TRUE(vote.look(all, Time{0}));
  vote.hear("c", word(0, "z"), Time{0});
  ASSERT_TRUE(vote.look(all, Time{0}));
  vote.hear("d", word(0, "z"), Time{0});
  EXPECT_FALSE(vote.settle(all, Time{0}));
  ASSERT_TRUE(vote.look(all, Time{0}));
  vote.hear("e", word(0, "z"), Time{0});
  EXPECT_TRUE(vote.settle(all, Time{0}));
  EXPECT_THAT(vote.draft().record.sums, ElementsAre(sum_named("z")));
}

TEST_F(ShardVoteTest, OneWordAloneCountsOnlyIfAThirdRegionSaysNothingEither) {
  one_.hear("a", word(0, "x"), Time{0});
  EXPECT_FALSE(one_.settle(kAll, kPatience)) << "c was not asked";
  EXPECT_TRUE(one_.look(kAll, kPatience));
  EXPECT_EQ(one_.draft().duties, duty(0, "c"));
  EXPECT_FALSE(one_.settle(kAll, 3 * kPatience - Time{1}));
  EXPECT_TRUE(one_.settle(kAll, 3 * kPatience));
  EXPECT_THAT(one_.draft().record.sums, ElementsAre(sum_named("x")));
  EXPECT_EQ(one_.unconfirmed(), std::set<std::string>{"a"});
}

TEST_F(ShardVoteTest, EveryNewWordIsWaitedForAnew) {
  ShardVote vote = this->vote(2);
  vote.hear("a", word(0, "x"), kPatience - Time{1});
  EXPECT_FALSE(vote.look(kAll, kPatience));
  EXPECT_EQ(vote.deadline(), 2 * kPatience - Time{1});
}

// ---- What is given up ----

TEST_F(ShardVoteTest, AShardThatNobodyCanSumLeadsNowhere) {
  EXPECT_FALSE(one_.leads_nowhere(kPatience)) << "nobody else was asked";
  ASSERT_TRUE(one_.look(kAll, kPatience));
  const Time now = *one_.deadline();
  EXPECT_FALSE(one_.leads_nowhere(now - Time{1}));
  EXPECT_TRUE(one_.leads_nowhere(now));
  one_.hear("c", word(0, "x"), now);
  EXPECT_FALSE(one_.leads_nowhere(now));
  EXPECT_FALSE(one_.leads_nowhere(*one_.deadline())) << "one word alone is enough now";
}

TEST_F(ShardVoteTest, SumsThatNobodyGetsLeadNowhere) {
  for (const char* region : {"a", "b"}) one_.hear(region, word(0, "x"), Time{0});
  ASSERT_TRUE(one_.settle(kAll, Time{0}));
  EXPECT_THAT(one_.unconfirmed(), IsEmpty());
  EXPECT_FALSE(one_.leads_nowhere(*one_.deadline() - Time{1}));
  EXPECT_TRUE(one_.leads_nowhere(*one_.deadline()));
  one_.hear("c", word_of_all(one_.draft().record.sums), *one_.deadline() - Time{1});
  EXPECT_FALSE(one_.leads_nowhere(*one_.deadline() - Time{1}));
}

TEST_F(ShardVoteTest, SumsThatStillArriveAreWaitedForUnlessTheirMakerAloneSaysSo) {
  one_.hear("a", word(0, "x"), Time{0});
  ASSERT_TRUE(one_.look(kAll, kPatience));
  const Time settled = 3 * kPatience;
  ASSERT_TRUE(one_.settle(kAll, settled));
  const Time deadline = *one_.deadline();
  one_.note_progress("a", settled);
  EXPECT_EQ(one_.deadline(), deadline) << "only a says that this is the sum";
  one_.note_progress("c", settled);
  EXPECT_GT(*one_.deadline(), deadline);
}

TEST_F(ShardVoteTest, TheWordOfIgnoredRegionsIsNotAwaitedAndDoesNotCount) {
  ShardVote vote(record(), 1, summers(), kPatience, Time{0}, {.ignored = {"a"}});
  for (const char* region : {"a", "b"}) vote.hear(region, word(0, "x"), Time{0});
  EXPECT_FALSE(vote.settle(kAll, Time{0})) << "b alone";
  EXPECT_TRUE(vote.look(kAll, Time{0})) << "nobody else is awaited";
  vote.hear("c", word(0, "x"), Time{0});
  EXPECT_TRUE(vote.settle(kAll, Time{0}));
}

// ---- Who is asked in place of whom ----

TEST_F(ShardVoteTest, SummersOutOfReachAreReplacedAtOnce) {
  const Up up{"c", "d"};
  EXPECT_TRUE(one_.look(up, Time{0}));
  EXPECT_EQ(one_.draft().duties, duty(0, "c"));
  EXPECT_FALSE(one_.look(up, Time{0})) << "c is awaited";
  one_.hear("c", word(0, "x"), Time{0});
  EXPECT_FALSE(one_.settle(up, Time{0})) << "one word";
  EXPECT_TRUE(one_.look(up, Time{0}));
  one_.hear("d", word(0, "x"), Time{0});
  EXPECT_TRUE(one_.settle(up, Time{0}));
}

TEST_F(ShardVoteTest, OneThatSpokeAndOneOutOfReachHaveAThirdAskedAtOnce) {
  one_.hear("a", word(0, "x"), Time{0});
  EXPECT_FALSE(one_.look(kAll, Time{0})) << "b is within reach";
  EXPECT_TRUE(one_.look({"a", "c", "d"}, Time{0}));
  EXPECT_EQ(one_.draft().duties, duty(0, "c"));
}

TEST_F(ShardVoteTest, ASilentSummerIsReplacedAfterThePatience) {
  EXPECT_EQ(one_.deadline(), kPatience);
  EXPECT_FALSE(one_.look(kAll, kPatience - Time{1}));
  EXPECT_TRUE(one_.look(kAll, kPatience));
  EXPECT_EQ(one_.draft().duties, duty(0, "c"));
  EXPECT_EQ(one_.deadline(), 3 * kPatience) << "c has twice as long";
  EXPECT_FALSE(one_.look(kAll, 3 * kPatience - Time{1}));
  EXPECT_TRUE(one_.look(kAll, 3 * kPatience));
  EXPECT_EQ(one_.draft().duties.back(), (Draft::Duty{0, "d"}));
  EXPECT_FALSE(one_.look(kAll, 9 * kPatience)) << "there is nobody left";
}

TEST_F(ShardVoteTest, WhoWasReplacedAfterThePatienceIsLate) {
  EXPECT_THAT(one_.late(), IsEmpty());
  one_.hear("b", word(0, "x"), Time{0});
  EXPECT_TRUE(one_.look(kAll, kPatience));
  EXPECT_THAT(one_.late(), ElementsAre("a"));
  ShardVote away = vote(1);
  away.hear("b", word(0, "x"), Time{0});
  EXPECT_TRUE(away.look({"b", "c", "d"}, kPatience));
  EXPECT_THAT(away.late(), IsEmpty()) << "a is out of reach, which is another matter";
}

// What is to be summed may be withheld, or all may be busy.
TEST_F(ShardVoteTest, NobodyIsLateWithASumThatNobodyHas) {
  EXPECT_TRUE(one_.look(kAll, kPatience));
  EXPECT_THAT(one_.late(), IsEmpty());
}

TEST_F(ShardVoteTest, BesideALateSummerOneMoreIsAskedAndItsWordCounts) {
  const DoubtedSummers late{.late = {"a", "c"}};
  ShardVote silent(record(), 1, summers(), kPatience, Time{0}, late);
  EXPECT_FALSE(silent.look(kAll, Time{0})) << "nobody has summed it yet";
  silent.hear("b", word(0, "x"), Time{0});
  EXPECT_TRUE(silent.look(kAll, Time{0}));
  EXPECT_EQ(silent.draft().duties, duty(0, "c"));
  EXPECT_FALSE(silent.look(kAll, kPatience - Time{1})) << "one more, and not all at once";
  silent.hear("c", word(0, "x"), Time{0});
  EXPECT_TRUE(silent.settle(kAll, Time{0}));
  ShardVote in_time(record(), 1, summers(), kPatience, Time{0}, late);
  for (const char* region : {"a", "b"}) in_time.hear(region, word(0, "x"), Time{0});
  EXPECT_TRUE(in_time.settle(kAll, Time{0}));
}

TEST_F(ShardVoteTest, LateSummersAreWaitedForIfAllAreLate) {
  ShardVote vote(record(), 1, summers(), kPatience, Time{0}, {.late = {"a", "b"}});
  EXPECT_FALSE(vote.look(kAll, kPatience - Time{1}));
  EXPECT_FALSE(vote.leads_nowhere(kPatience - Time{1}));
  EXPECT_TRUE(vote.look(kAll, kPatience));
}

// Else whoever lies could settle alone what it made another late for.
TEST_F(ShardVoteTest, ALateSummerHasThePatienceWhereNobodyElseIsLeft) {
  const Up two{"a", "b"};
  ShardVote vote(record(), 1, summers(), kPatience, Time{0}, {.late = {"a"}});
  vote.hear("b", word(0, "x"), Time{0});
  EXPECT_TRUE(vote.look(two, Time{0}));
  EXPECT_EQ(vote.draft().duties, duty(0, "c")) << "who is away";
  EXPECT_FALSE(vote.look(two, kPatience - Time{1}));
  EXPECT_FALSE(vote.settle(two, kPatience - Time{1}));
  EXPECT_TRUE(vote.settle(two, kPatience));
}

TEST_F(ShardVoteTest, OnlyTheShardThatLacksAWordIsGivenToAnother) {
  ShardVote vote = this->vote(2);
  for (const char* region : {"a", "b"}) vote.hear(region, word(0, "x"), Time{0});
  EXPECT_TRUE(vote.look(kAll, kPatience));
  EXPECT_EQ(vote.draft().duties, duty(1, "d"));
}

// It makes no other draft of it: what was summed so far still counts.
TEST_F(ShardVoteTest, FurtherDutiesAndSumsLeaveTheDraftTheSame) {
  const Digest before = draft_digest(one_.draft().record);
  ASSERT_TRUE(one_.look({"c", "d"}, Time{0}));
  EXPECT_EQ(draft_digest(one_.draft().record), before);
  for (const char* region : {"a", "b"}) one_.hear(region, word(0, "x"), Time{0});
  ASSERT_TRUE(one_.settle(kAll, Time{0}));
  EXPECT_EQ(draft_digest(one_.draft().record), before);
}

// ---- What counts for nothing ----

TEST_F(ShardVoteTest, WordsOfAnotherDraftCountForNothing) {
  CommitRecord other = record();
  other.participants.pop_back();
  for (const char* region : {"a", "b"}) {
    ShardSums of_other = word(0, "x");
    of_other.draft = draft_digest(other);
    one_.hear(region, of_other, Time{0});
  }
  EXPECT_FALSE(one_.settle(kAll, kPatience));
}

TEST_F(ShardVoteTest, WordsOfRegionsThatWereNotAskedCountForNothing) {
  for (const char* region : {"c", "d", "stranger"}) one_.hear(region, word(0, "x"), Time{0});
  EXPECT_FALSE(one_.settle(kAll, kPatience));
  ASSERT_TRUE(one_.look({"c", "d"}, Time{0}));
  EXPECT_FALSE(one_.settle({"c", "d"}, kPatience)) << "what c said before it was asked";
}

TEST_F(ShardVoteTest, WordsOnShardsThatDoNotExistAndEmptySumsCountForNothing) {
  for (const char* region : {"a", "b"}) {
    ShardSums odd = word(1, "x");
    odd.sums[64] = sum_named("x");
    odd.sums[0] = inter::BlobId{};
    one_.hear(region, odd, Time{0});
  }
  EXPECT_FALSE(one_.settle(kAll, kPatience));
}

TEST_F(ShardVoteTest, NobodyTakesAWordBack) {
  one_.hear("a", word(0, "x"), Time{0});
  one_.hear("a", word(0, "y"), Time{0});
  one_.hear("b", word(0, "y"), Time{0});
  EXPECT_FALSE(one_.settle(kAll, Time{0})) << "a said x";
}

// ---- Who has the sums ----

TEST_F(ShardVoteTest, HoldersAreThoseThatHaveAllThatIsListed) {
  const std::vector<inter::BlobId> sums{sum_named("x"), sum_named("y")};
  ShardVote vote = this->vote(2);
  vote.hear("d", word_of_all(sums), Time{0});
  EXPECT_EQ(vote.holders(), 0U) << "nothing is listed so far";
  for (const char* region : {"a", "b"}) vote.hear(region, word(0, "x"), Time{0});
  for (const char* region : {"b", "c"}) vote.hear(region, word(1, "y"), Time{0});
  ASSERT_TRUE(vote.settle(kAll, Time{0}));
  EXPECT_EQ(vote.holders(), 0U);
  vote.hear("a", word_of_all(sums), Time{0});
  vote.hear("a", word_of_all(sums), Time{0});
  EXPECT_EQ(vote.holders(), 1U);
  vote.hear("d", word_of_all({sums[1], sums[0]}), Time{0});
  EXPECT_EQ(vote.holders(), 1U) << "d has other sums";
  vote.hear("d", word_of_all(sums), Time{0});
  EXPECT_EQ(vote.holders(), 2U);
}

TEST_F(ShardVoteTest, TheSumsCanBeHadOfThoseThatMadeThemOrOfOneHolder) {
  ShardVote vote = this->vote(2);
  for (const char* region : {"a", "b"}) vote.hear(region, word(0, "x"), Time{0});
  for (const char* region : {"b", "c"}) vote.hear(region, word(1, "y"), Time{0});
  ASSERT_TRUE(vote.settle(kAll, Time{0}));
  EXPECT_TRUE(vote.obtainable({"b"}));
  EXPECT_TRUE(vote.obtainable({"a", "c"}));
  EXPECT_FALSE(vote.obtainable({"a", "d"})) << "nobody has y";
  EXPECT_FALSE(vote.obtainable({"c", "d"})) << "nobody has x";
  vote.hear("d", word_of_all({sum_named("x"), sum_named("y")}), Time{0});
  EXPECT_TRUE(vote.obtainable({"d"}));
}

TEST_F(ShardVoteTest, WhoeverMadeAnotherSumDoesNotHaveTheOneThatIsListed) {
  one_.hear("a", word(0, "lie"), Time{0});
  one_.hear("b", word(0, "truth"), Time{0});
  ASSERT_TRUE(one_.look(kAll, Time{0}));
  one_.hear("c", word(0, "truth"), Time{0});
  ASSERT_TRUE(one_.settle(kAll, Time{0}));
  EXPECT_FALSE(one_.obtainable({"a", "d"}));
  EXPECT_TRUE(one_.obtainable({"c"}));
}

// ---- What is said of it ----

TEST_F(ShardVoteTest, SaysWhoHasNotSpoken) {
  ShardVote vote = this->vote(2);
  vote.hear("a", word(0, "x"), Time{0});
  EXPECT_EQ(vote.waiting_for(), "the sums of 1 of 2 shards of round 7 (missing from b, c)");
  vote.hear("b", word(0, "x"), Time{0});
  vote.hear("b", word(1, "y"), Time{0});
  EXPECT_THAT(vote.waiting_for(), HasSubstr("(missing from c)"));
  vote.hear("c", word(1, "y"), Time{0});
  ASSERT_TRUE(vote.settle(kAll, Time{0}));
  vote.hear("b", word_of_all(vote.draft().record.sums), Time{0});
  EXPECT_EQ(vote.waiting_for(), "other regions to get the sums of round 7 (1 have them)");
}

}  // namespace
}  // namespace causeway::diloco
