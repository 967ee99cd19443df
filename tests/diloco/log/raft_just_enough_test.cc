// When a leader that has just enough followers stops: at once, whatever takes one away.
#include <gtest/gtest.h>

#include <string>

#include "tests/diloco/log/raft_fixture.h"

namespace causeway::diloco {
namespace {

// With two of three regions, which are just enough.
class JustEnough : public RaftTest {
 protected:
  void SetUp() override {
    build({"a", "b", "c"});
    connect("a", "b");
    run(seconds{3});
    leading_ = leader();
    ASSERT_NE(leading_, "");
    follower_ = leading_ == "a" ? "b" : "a";
  }
  bool leads() {
    nodes_.at(leading_)->tick(now_);
    return nodes_.at(leading_)->leads();
  }
  std::string leading_, follower_;
};

TEST_F(JustEnough, ALeaderStopsAtOnceIfItsFollowerIsInALaterTerm) {
  ASSERT_TRUE(leads());
  Raft& node = *nodes_.at(leading_);
  const VoteRequest asks{.term = node.term() + 5, .pre = true, .last_index = 0, .last_term = 0};
  node.on_message(follower_, {incarnations_.at(follower_), asks}, now_);
  EXPECT_FALSE(leads());
}

TEST_F(JustEnough, ALeaderStopsAtOnceIfItsFollowerComesBackWithoutItsDisk) {
  ASSERT_TRUE(leads());
  nodes_.at(leading_)->on_peer_up(follower_, "another disk", now_);
  EXPECT_FALSE(leads());
}

TEST_F(JustEnough, ALeaderStopsAtOnceIfThereAreTooFewForNewMembers) {
  ASSERT_TRUE(leads());
  Raft& node = *nodes_.at(leading_);
  node.propose(with(node.membership(), {.region = "d", .incarnation = "d1"}), now_);
  EXPECT_FALSE(leads());
}

}  // namespace
}  // namespace causeway::diloco
