// Contributions and SpoolIndex: what is known of open rounds, and what of it the disk keeps.

#include "diloco/region/spool_index.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "diloco/log/raft_log.h"

namespace causeway::diloco {
namespace {

inter::BlobId blob(std::uint8_t name) {
  inter::BlobId id;
  id.hash[0] = name;
  id.size_bytes = 100;
  return id;
}

Contribution payload_of(const std::string& region, Round round, std::uint8_t payload) {
  Contribution made;
  made.run_id = "run1";
  made.region = region;
  made.round = round;
  made.data_begin = 10 * round;
  made.data_cursor = 10 * round + 10;
  made.payload = blob(payload);
  return made;
}

Membership two_members() {
  Membership membership;
  for (const char* name : {"a", "b"}) {
    Member member;
    member.region = name;
    membership = with(membership, std::move(member));
  }
  return membership;
}

ProtocolOptions options_of(const std::string& self) {
  ProtocolOptions options;
  options.self = self;
  options.pace.k = 4;
  options.pace.steps = 400;
  return options;
}

class SpoolTest : public ::testing::Test {
 protected:
  SpoolTest() { history_.begin("run1"); }

  CommitRecord record_of(Round round, const std::vector<Contribution>& listed) {
    CommitRecord record;
    record.run_id = "run1";
    record.round = round;
    record.expired_before = record.round;
    record.next_k = 4;
    for (const Contribution& one : listed) record.participants.push_back(participant_of(one, 1));
    log_.push({.term = 1, .body = record});
    return record;
  }
  // The next round lists these.
  CommitRecord commit(const std::vector<Contribution>& listed) {
    CommitRecord record = record_of(history_.version(), listed);
    history_.append(log_.last());
    spool_.list(record);
    return record;
  }
  // That round, once more, lists these; those after it are to be made anew.
  void commit_anew(Round round, const std::vector<Contribution>& listed) {
    spool_.unlist_from(round);
    const CommitRecord record = record_of(round, listed);
    history_.replace(log_.last());
    spool_.list(record);
  }
  std::vector<inter::BlobId> removed() {
    std::vector<inter::BlobId> blobs;
    for (const Action& action : out_.take()) {
      if (const auto* remove = std::get_if<RemoveBlob>(&action)) blobs.push_back(remove->blob);
    }
    return blobs;
  }

  const ProtocolOptions options_ = options_of("a");
  Outbox out_;
  RaftLog log_{{}, 1, nullptr};
  RunHistory history_{options_, log_};
  Contributions contributions_{options_, history_, out_};
  SpoolIndex spool_{options_, history_, contributions_, out_};
};

using ContributionsTest = SpoolTest;

TEST_F(ContributionsTest, ARecordSettlesWhatItListsAndWhatExpires) {
  contributions_.put(payload_of("b", 0, 1));
  const Contribution own = contributions_.add_own(payload_of("a", 0, 2), Time{0});
  EXPECT_EQ(contributions_.own(0)->payload, blob(2));
  const CommitRecord first = commit({payload_of("b", 0, 1)});
  EXPECT_EQ(contributions_.settle(first), std::vector{blob(1)});
  EXPECT_TRUE(contributions_.is_open(own));
  const CommitRecord second = commit({});
  EXPECT_EQ(contributions_.settle(second), std::vector{blob(2)});
  EXPECT_FALSE(contributions_.is_open(own));
  EXPECT_EQ(contributions_.newest_own()->payload, blob(2));  // its samples were used
  EXPECT_EQ(contributions_.data_cursor(), 10U);
}

TEST_F(ContributionsTest, StrangersAndOtherRunsAreNotKept) {
  Contribution of_other_run = payload_of("b", 0, 1);
  of_other_run.run_id = "run2";
  EXPECT_FALSE(contributions_.judge("b", of_other_run, two_members()));
  EXPECT_FALSE(contributions_.judge("c", payload_of("c", 0, 1), two_members()));
  EXPECT_TRUE(contributions_.judge("b", payload_of("b", 0, 1), two_members()));
  // Without the log everybody speaks for itself.
  EXPECT_TRUE(contributions_.judge("c", payload_of("c", 0, 1), {}));
  EXPECT_FALSE(contributions_.judge("b", payload_of("c", 0, 1), {}));
}

TEST_F(ContributionsTest, ANewerOneOfTheSameRegionPutsOlderOnesAside) {
  contributions_.put(payload_of("b", 0, 1));
  contributions_.set_held({"b", 0, 0}, "b", 100);
  const ContributionKey newer{"b", 1, 0};
  EXPECT_EQ(contributions_.displaced_by(newer), std::vector{blob(1)});
  EXPECT_TRUE(contributions_.open().empty());
  contributions_.put(payload_of("b", 1, 2));
  contributions_.set_held(newer, "b", 100);
  EXPECT_FALSE(contributions_.displaced_by({"b", 0, 0}));  // the older one comes late
}

TEST_F(ContributionsTest, AnOwnOneIsStampedWithHowLongTheRoundBeforeTook) {
  contributions_.add_own(payload_of("a", 0, 1), Time{0});
  EXPECT_FALSE(contributions_.awaited());
  commit({payload_of("a", 0, 1)});
  EXPECT_EQ(contributions_.awaited(), 0U);
  contributions_.outcome_is_here(std::chrono::seconds{2});
  EXPECT_FALSE(contributions_.awaited());
  Contribution next = payload_of("a", 1, 2);
  next.compute_s = 5;
  const Contribution stamped = contributions_.add_own(next, std::chrono::seconds{8});
  EXPECT_EQ(stamped.exchange_s, 2);
  EXPECT_EQ(stamped.overhead_s, 3);
}

TEST_F(ContributionsTest, ARejectedOneDoesNotComeBackAsAnOffer) {
  contributions_.add_own(payload_of("a", 0, 1), Time{0});
  contributions_.reject_own(0);
  EXPECT_EQ(contributions_.own(0), nullptr);
  EXPECT_EQ(contributions_.newest_own()->payload, inter::BlobId{});
}

// Whoever held it says nothing about what is made in its place.
TEST_F(ContributionsTest, ARejectedOneLeavesNoHolders) {
  contributions_.add_own(payload_of("a", 0, 1), Time{0});
  contributions_.set_held({"a", 0, 0}, "c", 100);
  contributions_.reject_own(0);
  contributions_.add_own(payload_of("a", 0, 2), Time{0});
  EXPECT_TRUE(contributions_.held({"a", 0, 0}).empty());
}

// A region whose log was damaged does an old round again.
TEST_F(ContributionsTest, SamplesOfARoundThatWasDoneAgainAreNotUsedAgain) {
  Contribution again = payload_of("a", 0, 3);
  again.data_begin = 20;
  again.data_cursor = 30;
  contributions_.add_own(payload_of("a", 1, 2), Time{0});
  contributions_.add_own(again, Time{0});
  EXPECT_EQ(contributions_.data_cursor(), 30U);
  Contributions later(options_, history_, out_);
  later.restore(again, true);
  later.restore(payload_of("a", 1, 2), true);
  EXPECT_EQ(later.data_cursor(), 30U);
}

TEST_F(SpoolTest, ABlobStaysWhileSomethingNamesIt) {
  contributions_.put(payload_of("b", 0, 1));
  spool_.put(blob(1));
  spool_.discard(blob(1));
  EXPECT_TRUE(spool_.holds(blob(1)));
  const CommitRecord record = commit({payload_of("b", 0, 1)});
  contributions_.settle(record);
  spool_.discard(blob(1));
  EXPECT_TRUE(spool_.holds_all(record));
  EXPECT_TRUE(removed().empty());
}

TEST_F(SpoolTest, WhatNothingComesToNameGoesAfterTwoRounds) {
  spool_.put(blob(7));
  spool_.leave_unclaimed_if_unnamed(blob(7));
  commit({});
  spool_.discard_stale();
  EXPECT_TRUE(spool_.holds(blob(7)));
  commit({});
  spool_.discard_stale();
  EXPECT_EQ(removed(), std::vector{blob(7)});
}

TEST_F(SpoolTest, PayloadsGoWhenASnapshotAndTheWorkerAreBeyondThem) {
  for (std::uint8_t round = 0; round < 5; ++round) {
    commit({payload_of("b", round, round)});
    spool_.put(blob(round));
  }
  EXPECT_EQ(spool_.payloads_from(), 0U);
  spool_.release_old(Applied{5, {}});
  EXPECT_EQ(spool_.released(), 0U);  // no snapshot yet
  spool_.put(blob(99));
  spool_.adopt({.version = 2, .state = {}, .blob = blob(99)});
  spool_.release_old(Applied{1, {}});
  EXPECT_EQ(removed(), std::vector{blob(0)});
  spool_.release_old(Applied{5, {}});
  EXPECT_EQ(removed(), std::vector{blob(1)});
  EXPECT_EQ(spool_.payloads_from(), 2U);
  EXPECT_EQ(spool_.first_missing(2), 5U);
  spool_.drop(blob(3));
  EXPECT_EQ(spool_.first_missing(2), 3U);
}

// A million actions at once would fill memory, and nobody be answered meanwhile.
TEST_F(SpoolTest, WhoJoinsALongRunLetsGoOfItsRoundsInPartsAndRemovesOnlyWhatIsThere) {
  constexpr Round kRounds = 5000;
  for (Round round = 0; round < kRounds; ++round) {
    Contribution made = payload_of("b", round, 1);
    made.payload.hash[1] = static_cast<std::uint8_t>(round);
    made.payload.hash[2] = static_cast<std::uint8_t>(round >> 8U);
    commit({made});
  }
  inter::BlobId begun = blob(1);
  begun.hash[1] = 7;
  spool_.set_room(1'000'000, {begun});
  spool_.put(blob(99));
  spool_.adopt({.version = kRounds, .state = {}, .blob = blob(99)});
  out_.take();
  std::vector<inter::BlobId> gone;
  Round before = 0;
  for (int event = 0; event < 10; ++event) {
    spool_.release_old(Applied{kRounds, {}});
    EXPECT_LE(spool_.released() - before, 1024);
    before = spool_.released();
    for (const inter::BlobId& blob : removed()) gone.push_back(blob);
  }
  EXPECT_EQ(spool_.released(), history_.kept_from());
  EXPECT_EQ(gone, std::vector{begun});
}

TEST_F(SpoolTest, PayloadsAreCountedAnewAfterEachThatComesOrGoes) {
  for (std::uint8_t round = 0; round < 3; ++round) commit({payload_of("b", round, round)});
  EXPECT_EQ(spool_.payloads_from(), 3U);
  for (const std::uint8_t round : {2, 1, 0}) {
    spool_.put(blob(round));
    EXPECT_EQ(spool_.payloads_from(), round);
  }
  spool_.drop(blob(0));
  EXPECT_EQ(spool_.payloads_from(), 1U);
  spool_.lose(blob(1));
  EXPECT_EQ(spool_.payloads_from(), 2U);
  commit({payload_of("b", 3, 3)});
  EXPECT_EQ(spool_.payloads_from(), 4U);
  spool_.put(blob(3));
  EXPECT_EQ(spool_.payloads_from(), 2U);
}

TEST_F(SpoolTest, PayloadsAreCountedFromTheRoundsThatAreNotReleased) {
  for (int round = 0; round < 5; ++round) commit({});  // nothing to hold, nothing to remove
  EXPECT_EQ(spool_.payloads_from(), 0U);
  spool_.put(blob(99));
  spool_.adopt({.version = 2, .state = {}, .blob = blob(99)});
  spool_.release_old(Applied{5, {}});
  EXPECT_EQ(spool_.payloads_from(), 2U);
}

TEST_F(SpoolTest, PayloadsAreCountedAnewWhereRoundsAreMadeAnew) {
  for (std::uint8_t round = 0; round < 4; ++round) {
    commit({payload_of("b", round, round)});
    spool_.put(blob(round));
  }
  EXPECT_EQ(spool_.payloads_from(), 0U);
  commit_anew(1, {payload_of("b", 1, 9)});
  for (std::uint8_t round = 2; round < 4; ++round) commit({payload_of("b", round, round)});
  EXPECT_EQ(spool_.payloads_from(), 2U);
}

// What is kept for a replay of the run, where everything is.
TEST_F(SpoolTest, OnlyPayloadsThatCountedAreMarkedAsListedWhenTheyGo) {
  commit({payload_of("b", 0, 1)});
  for (const std::uint8_t number : {1, 7, 99}) spool_.put(blob(number));
  spool_.adopt({.version = 1, .state = {}, .blob = blob(99)});
  spool_.discard(blob(7));
  for (int round = 0; round < 5; ++round) commit({});
  spool_.release_old(Applied{6, {}});
  spool_.adopt({.version = 6, .state = {}, .blob = blob(98)});
  spool_.release_older({});
  std::vector<std::pair<inter::BlobId, bool>> gone;
  for (const Action& action : out_.take()) {
    if (const auto* remove = std::get_if<RemoveBlob>(&action))
      gone.emplace_back(remove->blob, remove->listed);
  }
  EXPECT_THAT(gone, ::testing::ElementsAre(std::pair(blob(7), false), std::pair(blob(1), true),
                                           std::pair(blob(99), false)));
}

TEST_F(SpoolTest, ANewSnapshotReplacesTheOneBefore) {
  spool_.offer({.version = 1, .state = {}, .blob = blob(1)});
  spool_.adopt(spool_.take_offered());
  spool_.offer({.version = 1, .state = {}, .blob = blob(2)});  // not newer
  EXPECT_EQ(removed(), std::vector{blob(2)});
  spool_.aim_at(Snapshot{.version = 3, .state = {}, .blob = blob(3)});
  spool_.adopt_target();
  EXPECT_FALSE(spool_.target());
  EXPECT_EQ(spool_.snapshot()->version, 3U);
  spool_.release_older({});
  EXPECT_EQ(removed(), std::vector{blob(1)});
}

// A slow link brings it in more time than the run takes for the next ones. What follows it is of
// use to nobody who does not have it.
TEST_F(SpoolTest, AnOlderSnapshotAndWhatFollowsItStayWhileAPeerFetchesIt) {
  const auto snapshot_of = [](Round version, std::uint8_t name) {
    return Snapshot{.version = version, .state = {}, .blob = blob(name)};
  };
  commit({payload_of("a", 0, 10)});
  commit({payload_of("a", 1, 11)});
  for (const std::uint8_t name : {10, 11}) spool_.put(blob(name));
  const std::map<Snapshot, Round> leaps{{snapshot_of(1, 1), 1}};
  spool_.adopt(snapshot_of(1, 1));
  for (Round round = 2; round < 5; ++round) {
    commit({});
    spool_.adopt(snapshot_of(round, static_cast<std::uint8_t>(round)));
    spool_.release_older(leaps);
    spool_.release_old(Applied{round + 1, {}});
  }
  EXPECT_EQ(spool_.older(), std::vector{snapshot_of(1, 1)});
  EXPECT_EQ(spool_.released(), 1U);
  EXPECT_EQ(removed(), (std::vector{blob(10), blob(2), blob(3)}));
  EXPECT_TRUE(spool_.kept(blob(1)));
  spool_.release_older({{snapshot_of(1, 1), 2}});  // it applied one
  spool_.release_old(Applied{5, {}});
  EXPECT_EQ(removed(), std::vector{blob(11)});
  spool_.release_older({});
  EXPECT_EQ(removed(), std::vector{blob(1)});
}

// Whoever fetches it would have to fetch more than 16 times as much behind it.
TEST_F(SpoolTest, AnOlderSnapshotGoesWhenTheRunIsFasterThanItsWay) {
  const Snapshot old{.version = 0, .state = {}, .blob = blob(1)};
  spool_.adopt(old);
  spool_.adopt({.version = 1, .state = {}, .blob = blob(2)});
  for (Round round = 0; round < 8; ++round)
    commit({payload_of("a", round, 10), payload_of("b", round, 11)});
  spool_.release_older({{old, 0}});
  EXPECT_TRUE(removed().empty()) << "as many bytes follow as 16 times its own, and no more";
  commit({payload_of("a", 8, 12)});
  spool_.release_older({{old, 1}});
  EXPECT_TRUE(removed().empty()) << "it has applied one of these rounds";
  spool_.release_older({{old, 0}});
  EXPECT_EQ(removed(), std::vector{blob(1)});
}

// Peers make newer ones while it is on its way.
TEST_F(SpoolTest, WhatHasBegunOfASnapshotGoesWhenAnotherIsAimedAt) {
  spool_.aim_at(Snapshot{.version = 3, .state = {}, .blob = blob(3)});
  spool_.set_room(0, {blob(3)});
  spool_.aim_at(std::nullopt);
  EXPECT_TRUE(removed().empty()) << "nobody may offer it for a while only";
  spool_.aim_at(Snapshot{.version = 3, .state = {}, .blob = blob(3)});
  spool_.aim_at(Snapshot{.version = 6, .state = {}, .blob = blob(6)});
  EXPECT_EQ(removed(), std::vector{blob(3)});
  EXPECT_EQ(spool_.room_bytes(), 100U);
}

TEST_F(SpoolTest, WhatHasBegunAndNothingComesToNameGoesAfterTwoRounds) {
  for (int round = 0; round < 2; ++round) {
    spool_.set_room(0, {blob(7)});
    spool_.discard_stale();
    EXPECT_TRUE(removed().empty());
    commit({});
  }
  spool_.discard_stale();
  EXPECT_EQ(removed(), std::vector{blob(7)});
}

TEST_F(SpoolTest, ProgressIsReportedOnceASecond) {
  EXPECT_TRUE(spool_.may_report_progress(blob(1), Time{0}));
  EXPECT_FALSE(spool_.may_report_progress(blob(1), kReportInterval - Time{1}));
  EXPECT_TRUE(spool_.may_report_progress(blob(1), kReportInterval));
  spool_.forget_progress(blob(1));
  EXPECT_TRUE(spool_.may_report_progress(blob(1), kReportInterval));
}

}  // namespace

}  // namespace causeway::diloco
