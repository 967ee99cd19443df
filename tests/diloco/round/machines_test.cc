// What acts on a region, one machine at a time: members a and b, no leader within reach.
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "tests/diloco/round/machines_fixture.h"

namespace causeway::diloco {
namespace {

using std::chrono::seconds;

TEST_F(MachinesTest, LeaderDoesNothingWhereNobodyElectedIt) {
  leader_.lead(Time{0});
  EXPECT_FALSE(leader_.leads());
  EXPECT_TRUE(region_.out.take().empty());
}

TEST_F(MachinesTest, ExchangeSavesAnnouncesAndPushesAnOwnContribution) {
  exchange_.add_own(made_by("a"), Time{0});
  const std::vector<Action> actions = region_.out.take();
  ASSERT_EQ(actions.size(), 3U);
  EXPECT_TRUE(std::holds_alternative<SaveContributions>(actions[0]));
  EXPECT_TRUE(std::holds_alternative<SendMessage>(actions[1]));
  EXPECT_EQ(std::get<PushBlob>(actions[2]).peer, "b");
  EXPECT_TRUE(region_.spool.holds(made_by("a").payload));
}
TEST_F(MachinesTest, ExchangeTakesNothingBackFromALostDisk) {
  exchange_.hear("b", {.contribution = made_by("a")}, Time{0});
  EXPECT_TRUE(region_.contributions.open().empty());
}
TEST_F(MachinesTest, CatchUpAsksForAPayloadUnlessItIsPushed) {
  exchange_.hear("b", {made_by("b"), 100, true}, Time{0});
  catch_up_.fetch(Time{0});
  EXPECT_TRUE(taken<FetchBlob>().empty());
  catch_up_.fetch(seconds{6});  // nothing arrived
  ASSERT_EQ(taken<FetchBlob>().size(), 1U);
  exchange_.on_arrived(made_by("b").payload, seconds{6});
  catch_up_.fetch(seconds{60});
  EXPECT_TRUE(taken<FetchBlob>().empty());
}  // Everybody let go of most rounds, and b has no snapshot to give so far: what nobody has must
   // not
// be asked for hundreds of times, but for what the worker applies next.
TEST_F(MachinesTest, CatchUpAsksForNothingThatNobodyHasBeyondTheNextRounds) {
  constexpr Round kRounds = 200, kKeptFrom = 190;
  const auto listed = [](Round round) {
    const inter::BlobId payload{.hash = {static_cast<std::uint8_t>(round)}, .size_bytes = 100};
    return std::vector<Participant>{
        {.region = "b", .round = round, .weight = 1, .data_cursor = 4 * round, .payload = payload}};
  };
  Region region(options_of_a(), state_of_a({"a", "b"}, kRounds, listed));
  CatchUp catch_up(region);
  region.worker.attach({}, std::nullopt);
  region.peers.set_up("b", "b's disk");
  Status status;
  status.version = kRounds;
  status.payloads_from = kKeptFrom;
  region.peers.hear("b", status);
  catch_up.fetch(Time{0});
  std::set<Round> asked;
  for (const Action& action : region.out.take()) {
    if (const auto* fetch = std::get_if<FetchBlob>(&action)) asked.insert(fetch->blob.hash[0]);
  }
  EXPECT_TRUE(asked.contains(0));
  EXPECT_TRUE(asked.contains(kKeptFrom));
  EXPECT_LE(asked.size(), 16U);
}
TEST_F(MachinesTest, CatchUpTrustsNoSnapshotOfVersionsToCome) {
  EXPECT_TRUE(catch_up_.trusted({.version = 0, .state = {}, .blob = {}}));
  EXPECT_FALSE(catch_up_.trusted({.version = 1, .state = {}, .blob = {}}));
}
TEST_F(MachinesTest, WorkerOrdersBeginOnceItIsClearThatNobodyLeads) {
  region_.worker.attach({}, std::nullopt);
  orders_.welcome();
  ASSERT_EQ(taken<WelcomeWorker>().size(), 1U);
  region_.worker.ask();
  orders_.instruct(Time{0});
  EXPECT_TRUE(region_.out.take().empty());
  orders_.instruct(cut_off_);
  const auto train = taken<OrderTrain>();
  ASSERT_EQ(train.size(), 1U);
  EXPECT_EQ(train[0].k, 4U);
  EXPECT_FALSE(region_.worker.ready());
}
TEST_F(MachinesTest, WorkerOrdersGoOnAfterAContributionWithoutAMajority) {
  region_.worker.attach({}, std::nullopt);
  orders_.welcome();
  exchange_.add_own(made_by("a"), cut_off_);
  region_.worker.ask();
  orders_.instruct(cut_off_);
  const auto more = taken<OrderContinue>();
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].data_cursor, 16U);
  EXPECT_TRUE(region_.worker.has_more());
}
TEST_F(MachinesTest, WorkerOrdersGoNowhereFromAVersionThatTheRunHasNot) {
  EXPECT_TRUE(orders_.steps_from(0));
  EXPECT_FALSE(orders_.steps_from(1));
  region_.worker.attach({}, std::nullopt);
  region_.worker.distrust_initial_state();
  EXPECT_FALSE(orders_.steps_from(0)) << "the state is to be replaced";
}  // It may be of wrong data.
TEST(WorkerOrdersInDoubt, CollectNothingBeforeItIsKnownWhoReadsOtherData) {
  ProtocolOptions options = options_of_a();
  options.start_wait = seconds{100};
  options.staleness_max = 2;
  Region region{options, state_of_a({"a", "b", "c"}, 1)};
  Beginning beginning{region};
  Leader leader{region, beginning};
  CatchUp catch_up{region};
  DataCheck data_check{region};
  WorkerOrders orders{region, leader, catch_up, beginning, data_check};
  const auto reads = [&](const std::string& peer, std::uint8_t data) {
    region.peers.set_up(peer, peer + "'s disk");
    Status status;
    status.data = DataDigest{.sample = {data}};
    region.peers.hear(peer, status);
    data_check.check(false, Time{0});
  };
  region.worker.attach({}, std::nullopt, DataDigest{.sample = {1}}, {}, true);
  data_check.check(true, Time{0});
  reads("b", 2);
  orders.welcome();
  region.worker.ask();
  region.out.take();
  orders.instruct(Time{0});
  EXPECT_TRUE(region.out.take().empty());
  reads("c", 1);
  orders.instruct(Time{0});
  const std::vector<Action> told = region.out.take();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<OrderCollect>(told[0]));
}  // Told to take none it would ask again at once, for as long as nobody can be reached.
TEST_F(MachinesTest, WorkerOrdersGoNowhereInARoundWithoutSteps) {
  ProtocolOptions options = options_of_a();
  options.pace = {.steps = 0, .k = 4, .fragments = 2};
  Region region{options, state_of_a({"a", "b"})};
  Beginning beginning{region};
  Leader leader{region, beginning};
  CatchUp catch_up{region};
  const DataCheck data_check{region};
  const WorkerOrders orders{region, leader, catch_up, beginning, data_check};
  ASSERT_FALSE(region.history.over());
  ASSERT_EQ(region.history.k_of("a"), 0U);
  EXPECT_FALSE(orders.steps_from(0));
}  // They had the same samples, say. The bytes are here already, and are not sent once more.
TEST_F(MachinesTest, ExchangeReportsAPayloadThatThisRegionMadeAsWell) {
  Raft& raft = region_.agreement.raft();
  raft.on_peer_up("b", "b's disk", Time{0});
  raft.on_message("b", {"b's disk", AppendEntries{.term = 1, .entries = {}}}, Time{0});
  ASSERT_EQ(region_.agreement.leader(), "b");
  const Contribution theirs = made_by("b");
  exchange_.hear("b", {theirs, theirs.payload.size_bytes, true}, Time{0});
  Contribution own = made_by("a");
  own.payload = theirs.payload;
  taken<SendMessage>();
  exchange_.add_own(own, Time{0});
  std::size_t reported = 0;
  for (const SendMessage& sent : taken<SendMessage>()) {
    const auto* holding = std::get_if<Holding>(&sent.message);
    const bool of_b = holding != nullptr && holding->contribution.region == "b";
    if (of_b) reported += holding->received_bytes;
  }
  EXPECT_EQ(reported, theirs.payload.size_bytes);
}  // All its bytes are here, and may be the wrong ones.
TEST_F(MachinesTest, ExchangeSaysThatItHoldsAPayloadOnceItsHashWasChecked) {
  Raft& raft = region_.agreement.raft();
  raft.on_peer_up("b", "b's disk", Time{0});
  raft.on_message("b", {"b's disk", AppendEntries{.term = 1, .entries = {}}}, Time{0});
  const Contribution theirs = made_by("b");
  exchange_.hear("b", {theirs, theirs.payload.size_bytes, true}, Time{0});
  const auto reported = [this] {
    std::uint64_t bytes = 0;
    for (const SendMessage& sent : taken<SendMessage>())
      if (const auto* holding = std::get_if<Holding>(&sent.message))
        bytes = holding->received_bytes;
    return bytes;
  };
  reported();
  exchange_.on_progress(theirs.payload, theirs.payload.size_bytes, seconds{1});
  EXPECT_EQ(reported(), theirs.payload.size_bytes - 1);
  exchange_.on_arrived(theirs.payload, seconds{2});
  EXPECT_EQ(reported(), theirs.payload.size_bytes);
  exchange_.on_lost(theirs.payload, seconds{3});
  EXPECT_EQ(reported(), 0U);
  EXPECT_FALSE(region_.spool.holds(theirs.payload));
}  // A leader that says that the run is over and goes on leading is lying.
TEST_F(MachinesTest, RunEndBelievesALeaderThatTheRunIsOverOnceItHasLeft) {
  Raft& raft = region_.agreement.raft();
  raft.on_peer_up("b", "b's disk", Time{0});
  const AppendEntries heartbeat{
      .term = 1, .previous_index = 1, .previous_term = 1, .entries = {}, .commit = 1};
  for (const Time now : {seconds{0}, seconds{300}}) {
    raft.on_message("b", {"b's disk", heartbeat}, now);
    region_.agreement.find_leader(now);
    end_.on_finished("b");
    end_.check(now);
    EXPECT_TRUE(taken<EndRun>().empty());
  }
  raft.on_peer_down("b", seconds{300});
  region_.peers.set_down("b");
  region_.agreement.find_leader(seconds{300});
  end_.check(seconds{301});
  EXPECT_TRUE(taken<EndRun>().empty());
  end_.check(seconds{400});
  const std::vector<EndRun> ended = taken<EndRun>();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended.front().exit_code, 3);
}
TEST_F(MachinesTest, StatusIsReportedWhenItChanges) {
  region_.report.publish(Time{0});
  region_.report.publish(seconds{5});
  EXPECT_EQ(taken<SendMessage>().size(), 1U);
  region_.report.add_received(10);
  EXPECT_EQ(region_.report.next_deadline(), Time{kReportInterval});
  region_.report.publish(kReportInterval - Time{1});
  EXPECT_TRUE(taken<SendMessage>().empty());
  region_.report.publish(kReportInterval);
  EXPECT_EQ(taken<SendMessage>().size(), 1U);
}

}  // namespace
}  // namespace causeway::diloco
