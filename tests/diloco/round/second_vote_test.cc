// Whom a run's founder, the only one with a vote, gives the next ones. It is region "a".
#include <initializer_list>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "diloco/region/region.h"
#include "diloco/round/beginning.h"
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
  void begin(std::initializer_list<Member> others, InitialValues initial = InitialValues::founder) {
    ProtocolOptions options;
    options.self = "a";
    options.initial = initial;
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
    beginning_.reset();
    region_.emplace(options, state);
    beginning_.emplace(*region_);
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
  void trains(const std::string& region, std::uint8_t data, const NamedTensors& tensors = {}) {
    const DataDigest digest{.sample = {data}};
    if (region == "a") return region_->worker.attach({}, std::nullopt, digest, tensors);
    Status status;
    status.applied = Applied{};
    status.data = digest;
    region_->peers.hear(region, status);
  }
  // Empty: nobody.
  std::string get_votes() {
    const std::optional<Membership> next = MemberChanges(*region_, *beginning_).next(Time{0});
    if (!next) return "";
    std::string regions;
    for (const Member& member : next->members) {
      if (member.region != "a" && !member.incarnation.empty()) regions += member.region;
    }
    return regions.empty() ? "nobody, and something else changes" : regions;
  }
  Raft& raft() { return region_->agreement.raft(); }

  std::optional<Region> region_;
  std::optional<Beginning> beginning_;
};

TEST_F(SecondVoteTest, IsNotGivenToOneThatMayStillBeRefused) {
  begin({voteless("b"), voteless("c")});
  joins("b");
  EXPECT_EQ(get_votes(), "");
  trains("b", 1);
  EXPECT_EQ(get_votes(), "") << "what a itself reads is not known";
  trains("a", 2);
  EXPECT_EQ(get_votes(), "") << "b reads other data and will be refused";
}

TEST_F(SecondVoteTest, IsGivenTogetherWithTheThird) {
  begin({voteless("b"), voteless("c"), voteless("d")});
  joins("c");
  joins("b");
  EXPECT_EQ(get_votes(), "bc");
}

TEST_F(SecondVoteTest, IsNotGivenToAProgramThatIsRefused) {
  const NamedTensors wide = {{.name = "w", .shape = {3}, .values = Digest{1}}},
                     narrow = {{.name = "w", .shape = {2}, .values = Digest{1}}},
                     other = {{.name = "w", .shape = {3}, .values = Digest{2}}};
  for (const InitialValues initial : {InitialValues::founder, InitialValues::equal}) {
    begin({voteless("b"), voteless("c")}, initial);
    joins("b");
    trains("b", 1);
    trains("a", 1, wide);
    EXPECT_EQ(get_votes(), "") << "what b trains is not known";
    beginning_->hear("b", {.tensors = narrow});
    EXPECT_EQ(get_votes(), "");
    beginning_->hear("b", {.tensors = other});
    EXPECT_EQ(get_votes(), initial == InitialValues::equal ? "" : "b");
    beginning_->hear("b", {.tensors = wide});
    EXPECT_EQ(get_votes(), "b");
  }
}

TEST_F(SecondVoteTest, IsGivenToOneWithWhichRoundsCanBeMade) {
  begin({voteless("b"), voteless("c")});
  joins("b");
  trains("b", 1);
  trains("a", 1);
  EXPECT_EQ(get_votes(), "b");
}

TEST_F(SecondVoteTest, IsGivenToTheOnlyOtherRegionAndToAWitness) {
  begin({voteless("b")});
  joins("b");
  EXPECT_EQ(get_votes(), "b");
  begin({voteless("b"), voteless("w", true)});
  joins("w");
  EXPECT_EQ(get_votes(), "w");
}

}  // namespace
}  // namespace causeway::diloco
