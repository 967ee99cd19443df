// Whom a run's founder, the only one with a vote, gives the second one. It is region "a".
#include <initializer_list>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "diloco/region/region.h"
#include "diloco/round/member_changes.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

Member voteless(const std::string& region, bool witness = false) {
  Member one;
  one.region = region;
  one.witness = witness;
  return one;
}

class SecondVoteTest : public ::testing::Test {
 protected:
  void begin(std::initializer_list<Member> others) {
    ProtocolOptions options;
    options.self = "a";
    options.incarnation = "a's disk";
    Member founder = voteless("a");
    founder.incarnation = "a's disk";
    Membership membership = with({}, founder);
    for (const Member& other : others) membership = with(membership, other);
    PersistentState state;
    state.run_id = "run1";
    state.raft.term = 1;
    state.raft.log = {{.term = 1, .body = membership}};
    state.raft.committed = 1;
    region_.emplace(options, state);
    region_->agreement.start(Time{0});
    raft().tick(seconds{100});
    ASSERT_TRUE(raft().leads());
  }

  // It has all that is in the log.
  void joins(const std::string& region) {
    const std::string disk = region + "'s disk";
    region_->peers.set_up(region, disk);
    raft().on_peer_up(region, disk, seconds{100});
    const AppendReply reply{.term = raft().term(), .accepted = true, .index = raft().log().last()};
    raft().on_message(region, {.incarnation = disk, .body = reply}, seconds{100});
  }
  void trains(const std::string& region, std::uint8_t data) {
    const DataDigest digest{.sample = {data}};
    if (region == "a") return region_->worker.attach({}, std::nullopt, digest);
    Status status;
    status.applied = Applied{};
    status.data = digest;
    region_->peers.hear(region, status);
  }
  // Empty: nobody.
  std::string gets_a_vote() {
    const std::optional<Membership> next = MemberChanges(*region_).next();
    if (!next) return "";
    for (const Member& member : next->members) {
      if (member.region != "a" && !member.incarnation.empty()) return member.region;
    }
    return "nobody, and something else changes";
  }
  Raft& raft() { return region_->agreement.raft(); }

  std::optional<Region> region_;
};

TEST_F(SecondVoteTest, IsNotGivenToOneThatMayStillBeRefused) {
  begin({voteless("b"), voteless("c")});
  joins("b");
  EXPECT_EQ(gets_a_vote(), "");
  trains("b", 1);
  EXPECT_EQ(gets_a_vote(), "") << "what a itself reads is not known";
  trains("a", 2);
  EXPECT_EQ(gets_a_vote(), "") << "b reads other data and will be refused";
}

TEST_F(SecondVoteTest, IsGivenWhenAThirdFollowsAtOnce) {
  begin({voteless("b"), voteless("c")});
  joins("b");
  joins("c");
  EXPECT_EQ(gets_a_vote(), "b");
}

TEST_F(SecondVoteTest, IsGivenToOneWithWhichRoundsCanBeMade) {
  begin({voteless("b"), voteless("c")});
  joins("b");
  trains("b", 1);
  trains("a", 1);
  EXPECT_EQ(gets_a_vote(), "b");
}

TEST_F(SecondVoteTest, IsGivenToTheOnlyOtherRegionAndToAWitness) {
  begin({voteless("b")});
  joins("b");
  EXPECT_EQ(gets_a_vote(), "b");
  begin({voteless("b"), voteless("w", true)});
  joins("w");
  EXPECT_EQ(gets_a_vote(), "w");
}

}  // namespace
}  // namespace causeway::diloco
