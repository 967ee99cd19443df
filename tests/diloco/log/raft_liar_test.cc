// Raft with a member that lies, in what it says of terms and of who leads.
#include <gtest/gtest.h>

#include "diloco/log/electorate.h"
#include "tests/diloco/log/raft_fixture.h"

namespace causeway::diloco {
namespace {

class LyingMember : public RaftTest {
 protected:
  void SetUp() override {
    build({"a", "b", "c"});
    connect_all();
    run(seconds{3});
    first_ = leader();
    liar_ = first_ == "c" ? "b" : "c";
    honest_ = first_ == "a" ? (liar_ == "b" ? "c" : "b") : "a";
    mute_ = liar_;
  }
  void says(const std::string& to, decltype(RaftMessage::body) body) {
    nodes_.at(to)->on_message(liar_, {liar_ + "1", std::move(body)}, now_);
  }
  static std::vector<Term> terms(Term own) {
    return {0, 1, own - 1, own, own + 1, own + 2, own + 1'000'000, kTermMax - 1, kTermMax};
  }
  std::string first_, liar_, honest_;
};

TEST(TermClaims, OneWordMovesATermByAStepAndTwoAsFarAsTheyAgree) {
  TermClaims claims(seconds{1}, PlantedBug::none);
  for (const char* region : {"b", "c", "d"}) claims.connect(region);
  claims.note("b", Term{1} << 30U);
  const Term one = claims.towards_latest(5, TermClaims::Step::candidate);
  EXPECT_LT(one, 100);
  claims.note("d", 1'000'000);
  EXPECT_EQ(claims.towards_latest(5, TermClaims::Step::candidate), 1'000'000 + one - 5);
}

// Whoever waits for a region that was raised to a later term knows for how long at most.
TEST_F(LyingMember, ARegionThatItRaisedFollowsAgainInTheTimeThatIsStated) {
  Raft& raised = *nodes_.at(honest_);
  Raft& leading = *nodes_.at(first_);
  const auto raise = [&] {
    says(honest_, AppendEntries{.term = raised.term() + 1000,
                                .previous_index = 99,
                                .previous_term = 99,
                                .entries = {}});
    raised.on_peer_down(first_, now_);
    raised.on_peer_up(first_, first_ + "1", now_);
    says(honest_, VoteRequest{.term = raised.term() + 1000, .last_index = 999, .last_term = 999});
  };
  for (int turn = 0; turn < 200 && leading.reunion_max({honest_}) == Time{0}; ++turn) {
    raise();
    run(milliseconds{20});
  }
  ASSERT_GT(leading.reunion_max({honest_}), Time{0});
  EXPECT_EQ(leading.reunion_max({first_}), Time{0});
  run(leading.reunion_max({honest_}));
  EXPECT_TRUE(raised.is_led(now_));
}

// Whatever one member says of terms, the leader leads on or is back within one round trip, and no
// term comes near the end of all terms.
TEST_F(LyingMember, DoesNotDeposeALeaderThatTheOthersFollow) {
  Round round = 0;
  for (int turn = 0; turn < 20; ++turn) {
    for (const std::string& to : {first_, honest_}) {
      for (const Term term : terms(nodes_.at(to)->term())) {
        says(to, AppendReply{.term = term});
        says(to, VoteReply{.term = term});
        says(to, VoteReply{.term = term, .pre = true, .granted = true});
        says(to, VoteRequest{.term = term, .last_index = ~Index{0}, .last_term = term});
        says(to, VoteRequest{.term = term, .pre = true, .last_index = 99, .last_term = term});
        says(to, AppendEntries{
                     .term = term, .previous_index = 99, .previous_term = term, .entries = {}});
      }
    }
    run(milliseconds{50});
    ASSERT_EQ(leader(), first_);
    nodes_.at(first_)->propose(record(round++), now_);
    run(milliseconds{500});
    ASSERT_EQ(records(honest_), round);
  }
  EXPECT_LT(nodes_.at(first_)->term(), Term{1} << 20U);
}

// It costs elections, each time fewer.
TEST_F(LyingMember, DoesNotKeepTheOthersFromElectingALeader) {
  cut_off(first_);
  std::string elected;
  for (int turn = 0; turn < 6000 && elected.empty(); ++turn) {
    Raft& raft = *nodes_.at(honest_);
    says(honest_,
         VoteRequest{.term = raft.term() + 1, .last_index = 999, .last_term = raft.term()});
    says(honest_, VoteReply{.term = raft.term() + 5});
    run(milliseconds{10});
    if (turn == 300) {
      connect(first_, honest_);
      connect(first_, liar_);
    }
    if (raft.leader() && raft.leader() != liar_ && turn > 300) elected = *raft.leader();
  }
  EXPECT_TRUE(elected == first_ || elected == honest_) << elected;
}

TEST_F(LyingMember, CannotClaimToLeadTheTermOfAnother) {
  Raft& raft = *nodes_.at(honest_);
  const Index last = raft.log().last();
  AppendEntries append{.term = raft.term(),
                       .previous_index = last,
                       .previous_term = raft.log().term_at(last),
                       .entries = {{.term = raft.term(), .body = record(7)}},
                       .commit = last + 1};
  says(honest_, append);
  EXPECT_EQ(raft.log().last(), last);
  append.term = append.entries[0].term = raft.term() + 1;
  says(honest_, append);
  EXPECT_EQ(raft.log().last(), last);
  EXPECT_EQ(raft.leader(), first_);
}

TEST_F(LyingMember, IsNotFollowedAgainstWhatIsCommitted) {
  cut_off(first_);
  run(seconds{1});
  Raft& raft = *nodes_.at(honest_);
  const Term term = raft.term();
  const AppendEntries append{
      .term = term + 1, .previous_index = 1, .previous_term = term + 1, .entries = {}};
  EXPECT_FALSE(raft.on_message(liar_, {liar_ + "1", append}, now_));
  EXPECT_EQ(raft.term(), term);
  EXPECT_TRUE(raft.on_message(liar_, {liar_ + "1", AppendReply{.term = term}}, now_));
}

// One that says that it leads, and never has anything committed.
TEST_F(LyingMember, IsNotFollowedForLongIfItLeadsNowhere) {
  cut_off(first_);
  Raft& raft = *nodes_.at(honest_);
  int followed = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    const Term term = std::max(raft.term(), Term{2} + nodes_.at(first_)->term());
    says(honest_,
         AppendEntries{.term = term, .previous_index = 999, .previous_term = term, .entries = {}});
    followed += raft.leader() == liar_ ? 1 : 0;
    raft.tick(now_);
    raft.take();
    now_ += milliseconds{10};
  }
  EXPECT_GT(followed, 0);
  EXPECT_LT(followed, 2000);
}

// An honest region that was away while the others held many elections.
TEST_F(LyingMember, OrNot_AFarTermOfALeaderIsReached) {
  cut_off(honest_);
  Raft& raft = *nodes_.at(honest_);
  const Term far = raft.term() + 200'000;
  raft.on_peer_up(liar_, liar_ + "1", now_);
  for (int turn = 0; turn < 2000 && raft.leader() != liar_; ++turn) {
    says(honest_,
         AppendEntries{.term = far, .previous_index = 1, .previous_term = 1, .entries = {}});
    raft.tick(now_);
    raft.take();
    now_ += milliseconds{10};
  }
  EXPECT_EQ(raft.leader(), liar_);
  EXPECT_EQ(raft.term(), far);
}

}  // namespace
}  // namespace causeway::diloco
