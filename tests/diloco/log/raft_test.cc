// Raft alone: a few nodes in memory, messages delivered or dropped by hand.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "diloco/log/raft.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class RaftTest : public ::testing::Test {
 protected:
  // The first of the regions has founded the run; all vote.
  void build(const std::vector<std::string>& regions) {
    Membership membership;
    for (const std::string& region : regions) {
      membership = with(membership, {.region = region, .incarnation = region + "1"});
    }
    const RaftState state{
        .term = 1, .vote = {}, .log = {{.term = 1, .body = membership}}, .committed = 1};
    for (const std::string& region : regions) start(region, region + "1", state);
  }
  void start(const std::string& region, const std::string& incarnation, const RaftState& state) {
    nodes_[region] = std::make_unique<Raft>(RaftOptions{.self = region,
                                                        .incarnation = incarnation,
                                                        .heartbeat = milliseconds{100},
                                                        .election = seconds{1},
                                                        .seed = nodes_.size()},
                                            state);
    incarnations_[region] = incarnation;
  }
  void connect(const std::string& a, const std::string& b) {
    nodes_.at(a)->on_peer_up(b, incarnations_.at(b), now_);
    nodes_.at(b)->on_peer_up(a, incarnations_.at(a), now_);
  }
  void connect_all() {
    for (const auto& [a, node] : nodes_) {
      for (const auto& [b, other] : nodes_) {
        if (a < b) connect(a, b);
      }
    }
  }
  void cut_off(const std::string& region) {
    for (auto& [name, node] : nodes_) {
      if (name == region) continue;
      node->on_peer_down(region, now_);
      nodes_.at(region)->on_peer_down(name, now_);
    }
  }
  // Time passes, and whatever is said arrives at once.
  void run(Time duration) {
    for (const Time end = now_ + duration; now_ < end; now_ += milliseconds{10}) {
      for (auto& [region, node] : nodes_) node->tick(now_);
      while (deliver()) {
      }
    }
  }
  bool deliver() {
    bool any = false;
    for (auto& [region, node] : nodes_) {
      Raft::Output output = node->take();
      if (region == mute_) continue;
      for (LogEntry& entry : output.committed) committed_[region].push_back(std::move(entry));
      for (auto& [to, message] : output.messages) {
        nodes_.at(to)->on_message(region, message, now_);
        any = true;
      }
    }
    return any;
  }
  std::string leader() const {
    for (const auto& [region, node] : nodes_) {
      if (node->leads()) return region;
    }
    return {};
  }
  static CommitRecord record(Round round) {
    CommitRecord record;
    record.run_id = "run";
    record.round = round;
    record.participants = {{.region = "a"}};
    return record;
  }
  std::size_t records(const std::string& region) {
    return static_cast<std::size_t>(std::count_if(
        committed_[region].begin(), committed_[region].end(),
        [](const auto& entry) { return std::holds_alternative<CommitRecord>(entry.body); }));
  }

  Time now_{milliseconds{1}};
  std::map<std::string, std::unique_ptr<Raft>> nodes_;
  std::map<std::string, std::string> incarnations_;
  std::map<std::string, std::vector<LogEntry>> committed_;
  std::string mute_;  // it says nothing by itself
};

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

// ---- A member that lies ----

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
