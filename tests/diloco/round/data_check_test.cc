// Regions that read different data where all should read the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/round/data_check.h"
#include "inter/base/text.h"

namespace causeway::diloco {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Region "a" of three, or of two; the others are up.
class DataCheckTest : public ::testing::Test {
 protected:
  void begin(std::initializer_list<const char*> regions, Round version = 0) {
    ProtocolOptions options;
    options.self = "a";
    options.start_wait = std::chrono::seconds{100};
    PersistentState state;
    state.run_id = "run1";
    Membership membership;
    for (const char* name : regions) {
      Member member;
      member.region = name;
      member.incarnation = std::string(name) + "'s disk";
      member.witness = member.region == "witness";
      membership = with(membership, member);
    }
    if (!membership.members.empty()) state.raft.log = {{.term = 1, .body = membership}};
    for (Round round = 0; round < version; ++round) {
      CommitRecord record;
      record.run_id = "run1";
      record.round = round;
      state.raft.log.push_back({.term = 1, .body = record});
    }
    state.raft.committed = state.raft.log.size();
    region_.emplace(options, state);
    check_.emplace(*region_);
    region_->agreement.start(Time{0});
  }

  void reads(const std::string& region, std::uint8_t data) {
    attach(region, {.sample = {1}, .whole = Digest{data}});
  }
  // Of which a sample is known, the same in all regions.
  void begins_to_read(const std::string& region) { attach(region, {.sample = {1}}); }
  void attach(const std::string& region, const DataDigest& data) {
    if (region == "a") return region_->worker.attach({}, std::nullopt, data);
    region_->peers.set_up(region, region + "'s disk");
    hear(region, data);
  }
  // All of it, since it attached.
  void has_read(const std::string& region, std::uint8_t data) {
    const DataDigest digest{.sample = {1}, .whole = Digest{data}};
    if (region == "a") return region_->worker.read_data(digest);
    hear(region, digest);
  }
  void hear(const std::string& region, const DataDigest& data) {
    Status status;
    status.data = data;
    region_->peers.hear(region, status);
  }

  // What it ends with, or is told; empty: nothing.
  std::string said(bool just_attached) {
    check_->check(just_attached, now_);
    for (const Action& action : region_->out.take()) {
      if (const auto* end = std::get_if<EndRun>(&action))
        return "ends " + std::to_string(end->exit_code) + ": " + end->message;
      if (const auto* note = std::get_if<Note>(&action)) return "notes: " + note->text;
    }
    return "";
  }

  std::string waits_for() const {
    std::string names;
    for (const std::string& region : check_->waits_for(now_)) inter::append_item(names, region);
    return names;
  }

  std::optional<Region> region_;
  std::optional<DataCheck> check_;
  Time now_{0};
};

TEST_F(DataCheckTest, TheOddOneOfThreeEndsAndTheOthersAreToldOnce) {
  begin({"a", "b", "c"});
  reads("a", 1);
  EXPECT_EQ(said(true), "") << "nothing is known of the others";
  reads("b", 2);
  EXPECT_THAT(said(false), AllOf(HasSubstr("notes: "), HasSubstr("other data (0100"),
                                 HasSubstr("than b (0200"), HasSubstr("data.mode")));
  EXPECT_EQ(said(false), "");
  reads("c", 2);
  EXPECT_THAT(said(false),
              AllOf(HasSubstr("ends 2: "), HasSubstr("b (0200"), HasSubstr("c (0200")));
}

// A region that joins hears the others before the log reaches it.
TEST_F(DataCheckTest, WhoIsNoMemberYetJudgesNothing) {
  begin({});
  reads("a", 1);
  reads("b", 2);
  EXPECT_EQ(said(true), "") << "b may be the odd one";
  begin({"b"});
  reads("a", 1);
  reads("b", 2);
  EXPECT_EQ(said(true), "") << "more members may follow in the log";
}

// Its worker may attach before the log has reached it.
TEST_F(DataCheckTest, WhoJoinsARunOfTwoGivesWayOnceItIsAMember) {
  begin({"b"}, 10);
  reads("a", 1);
  reads("b", 2);
  EXPECT_EQ(said(true), "");
  Membership both = region_->agreement.members();
  both = with(both, {.region = "a"});
  region_->agreement.raft().on_peer_up("b", "b's disk", Time{0});
  region_->agreement.raft().on_message(
      "b",
      {.incarnation = "b's disk",
       .body = AppendEntries{.term = 2,
                             .previous_index = 11,
                             .previous_term = 1,
                             .entries = {{.term = 2, .body = both}},
                             .commit = 12}},
      Time{0});
  EXPECT_THAT(said(false), HasSubstr("ends 2: "));
}

TEST_F(DataCheckTest, OnlyMembersCount) {
  begin({"a", "b", "c"});
  reads("a", 1);
  reads("b", 2);
  reads("removed", 2);
  EXPECT_THAT(said(true), AllOf(HasSubstr("notes: "), testing::Not(HasSubstr("removed"))));
}

TEST_F(DataCheckTest, OfTwoBothEndBeforeTheFirstRound) {
  begin({"a", "b"});
  reads("a", 1);
  reads("b", 2);
  EXPECT_THAT(said(false), HasSubstr("ends 2: "));
}

TEST_F(DataCheckTest, OfTwoTheOneThatComesBackWithOtherDataEndsLater) {
  begin({"a", "b"}, 1);
  reads("a", 1);
  reads("b", 2);
  EXPECT_THAT(said(false), HasSubstr("notes: ")) << "b came back";
  EXPECT_THAT(said(true), HasSubstr("ends 2: ")) << "this one did";
}

TEST_F(DataCheckTest, NothingIsSaidOfTheSameDataOrOfDataThatNobodyNamed) {
  begin({"a", "b", "c"});
  EXPECT_EQ(said(true), "");
  reads("b", 2);
  EXPECT_EQ(said(true), "");
  reads("a", 2);
  EXPECT_EQ(said(true), "");
}

TEST_F(DataCheckTest, OtherDataOfTheSameSampleIsFoundWhenAllIsRead) {
  begin({"a", "b", "c"}, 5);
  for (const char* region : {"a", "b", "c"}) begins_to_read(region);
  EXPECT_EQ(said(true), "");
  has_read("a", 1);
  EXPECT_EQ(said(false), "") << "of the others only a sample is known";
  has_read("b", 2);
  EXPECT_THAT(said(false), AllOf(HasSubstr("notes: "), HasSubstr("than b (0200")));
  has_read("c", 2);
  EXPECT_THAT(said(false), HasSubstr("ends 2: "));
}

TEST_F(DataCheckTest, OfTwoThatTrainedBeforeTheyHadReadAllBothEnd) {
  begin({"a", "b"}, 5);
  begins_to_read("a");
  begins_to_read("b");
  has_read("a", 1);
  EXPECT_EQ(said(false), "");
  has_read("b", 2);
  EXPECT_THAT(said(false), HasSubstr("ends 2: "));
}

TEST_F(DataCheckTest, OneThatWasFoundToReadTheSameDoesNotGiveWayToWhoComesBackWithOther) {
  begin({"a", "b"}, 5);
  begins_to_read("a");
  begins_to_read("b");
  has_read("a", 1);
  has_read("b", 1);
  EXPECT_EQ(said(false), "");
  reads("b", 2);
  EXPECT_THAT(said(false), HasSubstr("notes: "));
}

// The link to c comes up late: who of a and b is the odd one is not known before.
TEST_F(DataCheckTest, AWorkerThatAttachesIsHeldBackWhileNobodyKnowsWhichRegionIsTheOddOne) {
  for (const Round version : {0, 5}) {
    begin({"a", "b", "c"}, version);
    reads("a", 1);
    said(true);
    EXPECT_EQ(waits_for(), "") << "nobody said that it reads other data";
    reads("b", 2);
    said(false);
    EXPECT_EQ(waits_for(), "c");
    EXPECT_THAT(check_->waiting_for(now_),
                AllOf(HasSubstr("c to say which data"), HasSubstr("other data than b")));
    region_->peers.set_up("c", "c's disk");
    EXPECT_EQ(waits_for(), "c") << "it is there, and has said nothing";
    reads("c", 1);
    said(false);
    EXPECT_EQ(waits_for(), "") << "b is the odd one";
  }
}

TEST_F(DataCheckTest, ADoubtOutlivesTheLinkToWhoReadsOther) {
  begin({"a", "b", "c"});
  reads("a", 1);
  reads("b", 2);
  said(true);
  region_->peers.set_down("b");
  said(false);
  EXPECT_EQ(waits_for(), "b, c");
}

TEST_F(DataCheckTest, OneOfManyThatReadsTheSameEndsNoDoubt) {
  begin({"a", "b", "c", "d", "e"});
  reads("a", 1);
  reads("b", 1);
  reads("c", 2);
  said(true);
  EXPECT_EQ(waits_for(), "d, e");
  reads("d", 1);
  said(false);
  EXPECT_EQ(waits_for(), "") << "three of five";
}

TEST_F(DataCheckTest, ATrainerWithoutADigestIsNotInDoubt) {
  begin({"a", "b", "c"});
  reads("a", 1);
  reads("b", 2);
  said(true);
  region_->worker.attach({}, std::nullopt);
  said(true);
  EXPECT_EQ(waits_for(), "");
}

TEST_F(DataCheckTest, ADoubtEndsAndHoldsNoWorkerBackThatTrainedBefore) {
  begin({"a", "b", "c"}, 5);
  reads("a", 1);
  reads("c", 1);
  said(true);
  region_->peers.set_down("c");
  reads("b", 2);
  said(false);
  EXPECT_EQ(waits_for(), "") << "c read the same";
  begin({"a", "b", "c"}, 5);
  reads("a", 1);
  reads("b", 2);
  said(true);
  EXPECT_EQ(waits_for(), "c");
  EXPECT_EQ(check_->deadline(), std::chrono::seconds{100});
  now_ = std::chrono::seconds{100};
  EXPECT_EQ(waits_for(), "") << "nobody waits for ever";
  reads("a", 1);
  said(true);
  EXPECT_EQ(waits_for(), "") << "nor again with the same data";
}

// Both workers found that it was written into, and are started again: whose word comes first is
// chance.
TEST_F(DataCheckTest, WhoReadsAFileThatWasChangedWaitsForOthersToReadItAnew) {
  for (const Round version : {0, 5}) {
    begin({"a", "b"}, version);
    reads("a", 1);
    reads("b", 1);
    EXPECT_EQ(said(true), "");
    reads("a", 2);
    EXPECT_THAT(said(true), HasSubstr("notes: ")) << "b may have said it before it was changed";
    EXPECT_EQ(waits_for(), "b");
    EXPECT_EQ(check_->deadline(), std::chrono::seconds{100});
    reads("b", 2);
    EXPECT_EQ(said(false), "");
    EXPECT_EQ(waits_for(), "");
  }
}

TEST_F(DataCheckTest, WhoseWorkerHasNotSeenAChangeYetIsNotRefusedForIt) {
  begin({"a", "b", "c"}, 5);
  for (const char* region : {"a", "b", "c"}) reads(region, 1);
  EXPECT_EQ(said(true), "");
  for (const std::uint8_t data : {2, 3}) {
    hear("b", {.sample = {1}, .whole = Digest{data}});
    hear("c", {.sample = {1}, .whole = Digest{data}});
    EXPECT_THAT(said(false), testing::Not(HasSubstr("ends")));
    EXPECT_EQ(waits_for(), "") << "it trains meanwhile";
    reads("a", data);
    EXPECT_EQ(said(true), "");
    now_ += std::chrono::seconds{1000};
    EXPECT_EQ(said(false), "");
  }
}

TEST_F(DataCheckTest, AChangeThatOthersDoNotFollowIsRefusedInTheEnd) {
  for (const Round version : {0, 5}) {
    now_ = Time{0};
    begin({"a", "b"}, version);
    reads("a", 1);
    reads("b", 1);
    EXPECT_EQ(said(true), "");
    reads("a", 2);
    said(true);
    now_ = std::chrono::seconds{99};
    EXPECT_EQ(said(false), "");
    now_ = std::chrono::seconds{100};
    EXPECT_THAT(said(false), AllOf(HasSubstr("ends 2: "), HasSubstr("than b (0100")));
  }
}

TEST_F(DataCheckTest, OfThreeWhoseFileAloneStaysTheSameIsRefusedInTheEnd) {
  begin({"a", "b", "c"}, 5);
  for (const char* region : {"a", "b", "c"}) reads(region, 1);
  EXPECT_EQ(said(true), "");
  hear("b", {.sample = {1}, .whole = Digest{2}});
  hear("c", {.sample = {1}, .whole = Digest{2}});
  EXPECT_THAT(said(false), HasSubstr("notes: "));
  now_ = std::chrono::seconds{100};
  EXPECT_THAT(said(false), HasSubstr("ends 2: "));
}

TEST_F(DataCheckTest, AProgramThatShowsNoDataAndAWitnessAreNotWaitedFor) {
  begin({"a", "b", "c", "d", "witness"});
  reads("a", 1);
  reads("b", 2);
  region_->peers.set_up("c", "c's disk");
  Status trains;
  trains.applied = Applied{};
  region_->peers.hear("c", trains);
  said(true);
  EXPECT_EQ(waits_for(), "d");
}

TEST_F(DataCheckTest, WhoWasInDoubtGivesWayOfTwoHalves) {
  begin({"a", "b", "c", "d"}, 5);
  reads("a", 1);
  reads("b", 2);
  EXPECT_THAT(said(true), HasSubstr("notes: "));
  reads("c", 2);
  EXPECT_THAT(said(false), HasSubstr("ends 2: "));
}

TEST_F(DataCheckTest, ASampleIsCalledOne) {
  begin({"a", "b"});
  attach("a", {.sample = {1}});
  attach("b", {.sample = {2}, .whole = Digest{7}});
  EXPECT_THAT(said(true), AllOf(HasSubstr("data (a sample: 0100"), HasSubstr("than b (0700")));
}

}  // namespace
}  // namespace causeway::diloco
