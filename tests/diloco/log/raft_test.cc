// Raft alone: elections, the log, members.
#include <gtest/gtest.h>

#include <deque>

#include "diloco/log/messages.h"
#include "tests/diloco/log/raft_fixture.h"

namespace causeway::diloco {
namespace {

TEST_F(RaftTest, ElectsOneLeaderAndKeepsIt) {
  build({"a", "b", "c"});
  connect_all();
  run(seconds{3});
  const std::string first = leader();
  ASSERT_NE(first, "");
  const Term term = nodes_.at(first)->term();
  run(seconds{60});
  EXPECT_EQ(leader(), first);
  EXPECT_EQ(nodes_.at(first)->term(), term);
}

TEST_F(RaftTest, CommitsOnAMajorityAndAMinorityNever) {
  build({"a", "b", "c"});
  connect_all();
  run(seconds{3});
  const std::string old = leader();
  nodes_.at(old)->propose(record(0), now_);
  run(milliseconds{50});
  for (const auto& [region, node] : nodes_) EXPECT_EQ(records(region), 1) << region;

  cut_off(old);
  if (nodes_.at(old)->leads()) nodes_.at(old)->propose(record(1), now_);
  run(seconds{5});
  EXPECT_EQ(records(old), 1);
  EXPECT_FALSE(nodes_.at(old)->leads());
  ASSERT_NE(leader(), "");
  EXPECT_NE(leader(), old);
  nodes_.at(leader())->propose(record(1), now_);
  run(milliseconds{50});
  EXPECT_EQ(records(leader()), 2);
}

TEST_F(RaftTest, ALeaderWithoutTheOthersLinksStopsAtOnce) {
  build({"a", "b", "c"});
  connect_all();
  run(seconds{3});
  const std::string first = leader();
  ASSERT_NE(first, "");
  cut_off(first);
  nodes_.at(first)->tick(now_);
  EXPECT_FALSE(nodes_.at(first)->leads());
}

TEST_F(RaftTest, ALeaderThatHearsNobodyStopsAfterTwoElectionTimeouts) {
  build({"a", "b"});
  connect_all();
  run(seconds{3});
  const std::string first = leader();
  ASSERT_NE(first, "");
  mute_ = first == "a" ? "b" : "a";
  run(milliseconds{1850});
  EXPECT_TRUE(nodes_.at(first)->leads());
  run(milliseconds{200});
  EXPECT_FALSE(nodes_.at(first)->leads());
}

TEST_F(RaftTest, WhoReturnsDoesNotDeposeTheLeader) {
  build({"a", "b", "c"});
  connect_all();
  run(seconds{3});
  const std::string first = leader();
  const std::string other = first == "c" ? "b" : "c";
  cut_off(other);
  run(seconds{30});
  for (const auto& [region, node] : nodes_) {
    if (region != other) connect(region, other);
  }
  const Term term = nodes_.at(first)->term();
  run(seconds{10});
  EXPECT_EQ(leader(), first);
  EXPECT_EQ(nodes_.at(first)->term(), term);
}

TEST_F(RaftTest, ALostDiskHasNoVoteUntilTheLogNamesIt) {
  build({"a", "b", "c"});
  connect_all();
  run(seconds{3});
  cut_off("c");
  cut_off("b");
  start("b", "b2", {});
  connect("a", "b");
  // b2 may not stand in for b1: a alone is no majority of a, b1 and c.
  run(seconds{10});
  EXPECT_EQ(leader(), "");
  connect("a", "c");
  run(seconds{5});
  EXPECT_NE(leader(), "");
  EXPECT_FALSE(nodes_.at(leader())->electorate().votes("b"));
}

TEST_F(RaftTest, OfTwoTheOneThatKeptItsDiskGoesOn) {
  build({"a", "b"});
  connect_all();
  run(seconds{3});
  nodes_.at(leader())->propose(record(0), now_);
  run(milliseconds{50});
  cut_off("b");
  run(seconds{10});
  EXPECT_EQ(leader(), "");  // b may come back as it was
  start("b", "b2", {});
  connect("a", "b");
  run(seconds{5});
  EXPECT_EQ(leader(), "a");
  EXPECT_EQ(nodes_.at("b")->log().last(), nodes_.at("a")->log().last());
}

TEST_F(RaftTest, AMembershipChangesWhenItIsInTheLog) {
  build({"a", "b", "c"});
  connect_all();
  run(seconds{3});
  Raft& raft = *nodes_.at(leader());
  const std::string gone = leader() == "c" ? "b" : "c";
  raft.propose(without(raft.membership(), gone), now_);
  run(milliseconds{100});
  for (const auto& [region, node] : nodes_) {
    EXPECT_EQ(node->membership().find(gone), nullptr) << region;
  }
  EXPECT_EQ(raft.electorate().quorum(), 2);
}

// Whoever is removed may go as soon as it has the entry: nobody waits for its word.
TEST_F(RaftTest, OneOfTwoIsRemovedWithoutItsWord) {
  build({"a", "b"});
  connect_all();
  run(seconds{3});
  const std::string kept = leader(), gone = kept == "a" ? "b" : "a";
  Raft& raft = *nodes_.at(kept);
  cut_off(gone);
  raft.propose(without(raft.membership(), gone), now_);
  EXPECT_TRUE(raft.electorate().settled());
  run(seconds{10});
  EXPECT_EQ(leader(), kept);
}

TEST_F(RaftTest, ALeaderThatRemovesItselfLeadsUntilTheOthersHaveIt) {
  build({"a", "b"});
  connect_all();
  run(seconds{3});
  const std::string gone = leader(), kept = gone == "a" ? "b" : "a";
  cut_off(gone);
  nodes_.at(gone)->propose(without(nodes_.at(gone)->membership(), gone), now_);
  run(seconds{10});
  EXPECT_EQ(leader(), "");
  // Only it has the newest entry, so that the other one cannot be elected.
  connect(gone, kept);
  run(seconds{10});
  EXPECT_EQ(leader(), kept);
  EXPECT_TRUE(nodes_.at(kept)->electorate().settled());
  EXPECT_EQ(nodes_.at(kept)->membership().find(gone), nullptr);
}

// Or the other one, which may go on alone when the first loses its disk, would not know of it.
TEST_F(RaftTest, AVoteIsAddedToTwoWithTheWordOfBoth) {
  build({"a", "b"});
  start("c", "c1", {});
  connect_all();
  run(seconds{3});
  const std::string first = leader(), other = first == "a" ? "b" : "a";
  Raft& raft = *nodes_.at(first);
  nodes_.at(first)->on_peer_down(other, now_);
  nodes_.at(other)->on_peer_down(first, now_);
  raft.propose(with(raft.membership(), {.region = "c", .incarnation = "c1"}), now_);
  run(seconds{1});
  EXPECT_FALSE(raft.electorate().settled());
  connect("a", "b");
  run(seconds{5});
  EXPECT_TRUE(nodes_.at(leader())->electorate().settled());
}

TEST_F(RaftTest, AFollowersUncommittedEntriesGiveWay) {
  build({"a", "b", "c"});
  connect_all();
  run(seconds{3});
  const std::string old = leader();
  cut_off(old);
  nodes_.at(old)->propose(record(7), now_);  // reaches nobody
  const Index lost = nodes_.at(old)->log().last();
  run(seconds{5});
  nodes_.at(leader())->propose(record(0), now_);
  for (const auto& [region, node] : nodes_) {
    if (region != old) connect(region, old);
  }
  run(seconds{5});
  ASSERT_EQ(records(old), 1);
  const auto* there = std::get_if<CommitRecord>(&nodes_.at(old)->log().at(lost).body);
  EXPECT_TRUE(there == nullptr || there->round == 0);
}

// What was forgotten is read from disk for who lags.
TEST_F(RaftTest, AFollowerThatLagsGetsEntriesThatLeftTheLeadersMemory) {
  struct Disk : CommittedLog {
    std::vector<LogEntry> read(Index first, std::size_t count) const override {
      const auto begin = entries->begin() + static_cast<std::ptrdiff_t>(first - 1);
      return {begin, begin + static_cast<std::ptrdiff_t>(count)};
    }
    const std::vector<LogEntry>* entries = nullptr;
  };
  build({"a", "b", "c"});
  const LogEntry founding = nodes_.at("a")->log().at(1);
  std::map<std::string, Disk> disks;
  for (const char* region : {"a", "b", "c"}) {
    committed_[region] = {founding};
    disks[region].entries = &committed_[region];
    start(region, std::string(region) + "1",
          {.term = 1, .vote = {}, .log = {founding}, .committed = 1, .earlier = &disks[region]});
  }
  connect_all();
  run(seconds{3});
  const std::string lagging = leader() == "c" ? "b" : "c";
  cut_off(lagging);
  Raft& raft = *nodes_.at(leader());
  for (Round round = 0; round < 300; ++round) {
    raft.propose(record(round), now_);
    run(milliseconds{10});
    raft.forget_before(raft.committed());
  }
  EXPECT_LE(raft.log().last() - raft.log().first_in_memory(), 1);
  for (const auto& [region, node] : nodes_) {
    if (region != lagging) connect(region, lagging);
  }
  run(seconds{3});
  EXPECT_EQ(records(lagging), 300);
}

// No link takes a message of more than 4 MiB.
TEST_F(RaftTest, LargeEntriesAreSentInSeveralMessages) {
  constexpr Round kRounds = 40;
  build({"a", "b", "c"});
  connect_all();
  run(seconds{3});
  const std::string lagging = leader() == "c" ? "b" : "c", leading = leader();
  cut_off(lagging);
  for (Round round = 0; round < kRounds; ++round) {
    CommitRecord large = record(round);
    large.run_id.assign(100'000, 'x');
    nodes_.at(leading)->propose(large, now_);
  }
  run(milliseconds{50});
  connect(leading, lagging);
  std::size_t largest = 0;
  watch_ = [&](const RaftMessage& message) {
    largest = std::max(largest, serialize(Message(message)).size());
  };
  run(seconds{3});
  EXPECT_EQ(records(lagging), kRounds);
  EXPECT_LT(largest, 2U << 20);
  EXPECT_GT(largest, 500'000U) << "several at a time";
}

// It is not sent the same entries ever more often, which would make it slower still.
TEST_F(RaftTest, AFollowerThatIsSlowIsSentWhatItLacksHardlyMoreThanOnce) {
  constexpr Round kRounds = 2000;
  build({"a", "b", "c"});
  connect_all();
  run(seconds{3});
  const std::string slow = leader() == "c" ? "b" : "c";
  Raft& raft = *nodes_.at(leader());
  const std::string leading = leader();
  cut_off(slow);
  for (Round round = 0; round < kRounds; ++round) raft.propose(record(round), now_);
  run(milliseconds{50});
  connect(leading, slow);
  std::deque<RaftMessage> inbox;
  std::size_t sent = 0;
  Time busy_until{0};
  const auto entries_of = [](const RaftMessage& message) {
    const auto* append = std::get_if<AppendEntries>(&message.body);
    return append == nullptr ? 0 : append->entries.size();
  };
  for (int tick = 0; tick < 6000; ++tick, now_ += milliseconds{10}) {
    for (auto& [region, node] : nodes_) {
      node->tick(now_);
      for (auto& [to, message] : node->take().messages) {
        if (to != slow) {
          nodes_.at(to)->on_message(region, message, now_);
        } else {
          sent += entries_of(message);
          inbox.push_back(std::move(message));
        }
      }
    }
    while (!inbox.empty() && now_ >= busy_until) {
      // To write them takes longer than a heartbeat.
      if (entries_of(inbox.front()) > 0) busy_until = now_ + milliseconds{250};
      nodes_.at(slow)->on_message(leading, inbox.front(), now_);
      inbox.pop_front();
    }
  }
  EXPECT_EQ(nodes_.at(slow)->committed(), raft.committed());
  EXPECT_LE(sent, 2 * kRounds);
}

TEST_F(RaftTest, ALedgerThatContradictsTheLeadersIsNoticed) {
  build({"a", "b", "c"});
  const LogEntry founding = nodes_.at("c")->log().at(1);
  start("c", "c1",
        {.term = 9, .vote = {}, .log = {founding, {.term = 9, .body = record(3)}}, .committed = 2});
  connect("a", "b");
  run(seconds{5});
  nodes_.at(leader())->propose(record(0), now_);
  run(milliseconds{50});
  // A leader of a newer term than the edited one.
  AppendEntries append{.term = 10,
                       .previous_index = 1,
                       .previous_term = 1,
                       .entries = {{.term = 10, .body = record(0)}},
                       .commit = 2};
  Raft& raft = *nodes_.at("c");
  raft.on_peer_up("a", "a1", now_);
  EXPECT_FALSE(raft.on_message("a", {"a1", append}, now_));
}

}  // namespace
}  // namespace causeway::diloco
