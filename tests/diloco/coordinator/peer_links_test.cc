#include "diloco/coordinator/peer_links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>

#include "diloco/files/file_io.h"
#include "diloco/ledger/ledger_files.h"
#include "tests/diloco/coordinator/lone_region.h"
#include "tests/support/captured_log.h"

namespace causeway::diloco {
namespace {

using Peers = std::map<std::string, std::string>;

// "FIRST", or "FIRST, SECOND".
Peers dial(const CoordinatorOptions& options, const Membership& membership,
           const std::set<std::string>& moved = {}) {
  Peers peers;
  const Dialled all = dialled(options, membership, moved);
  for (const auto& [region, endpoint] : all.first)
    peers[region] = endpoint.host.empty() ? "" : inter::to_string(endpoint);
  for (const auto& [region, endpoint] : all.second)
    peers.at(region) += ", " + inter::to_string(endpoint);
  return peers;
}

CoordinatorOptions configured() {
  CoordinatorOptions options;
  options.region = "a";
  options.members = {{.region = "a"}, {.region = "b", .address = "here:1"}, {.region = "c"}};
  return options;
}

TEST(PeerLinks, DialEverybodyWhoIsConfiguredBeforeTheLogIsKnown) {
  EXPECT_EQ(dial(configured(), {}), (Peers{{"b", "here:1"}, {"c", ""}}));
}

TEST(PeerLinks, DialTheLogsMembersWhereTheConfigurationSays) {
  Membership log;
  log.members = {{.region = "a"},
                 {.region = "b", .address = "elsewhere:2"},
                 {.region = "d", .address = "joined:3"}};
  EXPECT_EQ(dial(configured(), log), (Peers{{"b", "here:1"}, {"d", "joined:3"}}));
}

// The configuration may be of before, or name a way of its own: who is there is not known here.
TEST(PeerLinks, DialAMemberThatMovedWhereTheLogSaysToo) {
  Membership log;
  log.members = {{.region = "a"},
                 {.region = "b", .address = "moved:2"},
                 {.region = "c", .address = "listens-now:3"},
                 {.region = "d", .address = "moved:4"}};
  EXPECT_EQ(dial(configured(), log, {"a", "b", "c", "d"}),
            (Peers{{"b", "here:1, moved:2"}, {"c", "listens-now:3"}, {"d", "moved:4"}}));
  log.members[1].address = "here:1";
  EXPECT_EQ(dial(configured(), log, {"b"}).at("b"), "here:1") << "the configuration follows";
  log.members[1].address = "";
  EXPECT_EQ(dial(configured(), log, {"b"}).at("b"), "here:1") << "it dials out, too";
}

// A member can have anything written there, and it stays in the log.
TEST(PeerLinks, DialNobodyAtWhatIsNoAddress) {
  Membership log;
  log.members = {{.region = "a"},
                 {.region = "b", .address = "a lie"},
                 {.region = "c", .address = "a lie"},
                 {.region = "e", .address = "a lie"}};
  const Peers peers = dial(configured(), log, {"b", "c", "e"});
  EXPECT_EQ(peers.at("b"), "here:1");
  EXPECT_EQ(peers.at("e"), "");
  EXPECT_EQ(endpoint_of(log.members.back()).host, "") << "nor does a follower";
}

TEST(PeerLinks, SayWhereTheyDialIfAMemberMovedAndTheFileDoesNotKnow) {
  testing::LoneRegion region;
  region.begin();
  const RoundProtocol& protocol = region.driver_->protocol();
  const auto put_b_at = [&](const char* address) {
    const std::size_t before = region.count<UpdateMembers>();
    region.driver_->handle(OperatorAsked{{.member = {.region = "b", .address = address}}});
    for (int i = 0; i < 10'000 && region.count<UpdateMembers>() == before; ++i) {
      region.driver_->handle(Tick{});
      region.loop_.run_for(std::chrono::milliseconds{1});
    }
    EXPECT_EQ(protocol.membership().find("b")->address, address);
  };
  region.options_.members.push_back({.region = "b", .address = "old:1"});
  put_b_at("other-way:1");
  {
    const test::CapturedLog log;
    const PeerLinks links(region.context());
    EXPECT_TRUE(protocol.moved().empty());
    EXPECT_FALSE(log.has("this host's file says")) << "it may well name another way";
  }
  put_b_at("new:2");
  const test::CapturedLog log;
  const PeerLinks links(region.context());
  EXPECT_TRUE(protocol.moved().contains("b"));
  EXPECT_TRUE(
      log.has("a: this host's file says that b is at old:1, and the run says that it moved "
              "to new:2 (`causeway members add`). Both are dialled, old:1 first."))
      << log.text();
}

// It would be made again at the next start, and end this region at each.
TEST(PeerLinks, LeaveUnsentWhatNoLinkTakes) {
  testing::LoneRegion region;
  PeerLinks links(region.context());
  const test::CapturedLog log;
  Tensors large;
  large.tensors.push_back({.name = std::string(5U << 20, 'x'), .shape = {1}});
  EXPECT_NO_THROW(links.carry_out(SendMessage{"b", large}));
  EXPECT_TRUE(log.has("It was not sent")) << log.text();
}

TEST(PeerLinks, NoteALinkThatComesAndGoesWithinABudget) {
  testing::LoneRegion region(
      0, Start::found, {},
      {{.region = "a", .address = "127.0.0.1:0"}, {.region = "b"}, {.region = "c"}});
  PeerLinks links(region.context());
  for (int i = 0; i < 50; ++i) links.on_peer_down("b", "it left");
  links.on_peer_down("c", "it left");
  const std::string events = read_file(region.options_.directory / "events.jsonl").value();
  const auto lines = std::ranges::count(events, '\n');
  EXPECT_LE(lines, 2 * PeerLinks::kEventsAMinute + 1) << "and another minute may have begun";
  EXPECT_NE(events.find("(for a minute, more like it are only counted)"), std::string::npos);
  EXPECT_NE(events.find("\"peer\":\"c\""), std::string::npos) << "it has a budget of its own";
}

// Region "a" can only dial out, and so can "b".
class T8DialOnlyMember : public ::testing::Test {
 protected:
  T8DialOnlyMember() { region_.options_.mesh.dial_only = true; }
  // What is left of the links' coroutines ends before what they refer to.
  ~T8DialOnlyMember() override {
    region_.loop_.restart();
    region_.loop_.poll();
  }
  test::CapturedLog log_;
  testing::LoneRegion region_;
};

TEST(PeerLinks, EndTheStartWhereTheFileNamesTwoThatCanOnlyDialOut) {
  testing::LoneRegion region(0, Start::join);
  region.options_.mesh.dial_only = true;
  region.options_.members.push_back({.region = "b"});
  PeerLinks links(region.context());
  try {
    links.start();
    ADD_FAILURE() << "nobody can dial";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), inter::Errc::unreachable_peer);
  }
  region.loop_.restart();
  region.loop_.poll();
}

// `members add` at any region: no word of another one may end this one, nor keep it from starting.
TEST_F(T8DialOnlyMember, OfTheLogEndsNeitherARegionThatRunsNorItsNextStart) {
  region_.begin();
  PeerLinks links(region_.context());
  links.start();
  EXPECT_FALSE(log_.has("can both only dial out"));
  region_.driver_->handle(OperatorAsked{{.member = {.region = "b"}}});
  const auto joined = [&] { return region_.driver_->protocol().membership().find("b") != nullptr; };
  for (int i = 0; i < 10'000 && !joined(); ++i) {
    region_.driver_->handle(Tick{});
    region_.loop_.run_for(std::chrono::milliseconds{1});
  }
  ASSERT_TRUE(joined());
  EXPECT_NO_THROW(links.carry_out(UpdateMembers{region_.driver_->protocol().membership()}));
  EXPECT_TRUE(log_.has("a and b can both only dial out")) << log_.text();
  EXPECT_NO_THROW(PeerLinks(region_.context()).start());
}

// A region that lost its disk learns the run from the next one that greets it.
TEST(PeerLinks, GreetWithTheRunThatTheyHaveLearned) {
  testing::LoneRegion region(0, Start::join);
  PeerLinks links(region.context());
  const auto told = [&links] {
    return judge({.run_id = "", .region = "c", .shared_config = ""}, "a", links.greeting())
        .peers_run_id;
  };
  EXPECT_EQ(told(), "");
  const Greeting founder{.run_id = "run-7", .region = "b", .shared_config = ""};
  ASSERT_EQ(links.judge_greeting("b", serialize(founder)), "");
  EXPECT_EQ(told(), "run-7");
}

Greeting of_run(const std::string& run_id, const std::string& region,
                const std::string& shared_config = {}) {
  return {.run_id = run_id, .region = region, .shared_config = shared_config};
}

// Region a, which joins a run of a, b, c and d that b founds.
class Joiner : public ::testing::Test {
 protected:
  Joiner() {
    region_.options_.members = {{.region = "a"}, {.region = "b"}, {.region = "c"}, {.region = "d"}};
    region_.options_.founder = "b";
  }
  std::string judge(const Greeting& greeting) {
    return links_.judge_greeting(greeting.region, serialize(greeting));
  }
  const std::string& run_id() { return region_.directory_.ledger().run_id(); }

  testing::LoneRegion region_{0, Start::join};
  PeerLinks links_{region_.context()};
};

TEST_F(Joiner, BelievesTheFounderMoreThanWhoeverSaysFirstWhichRunThisIs) {
  ASSERT_EQ(judge(of_run("lie", "c")), "");
  EXPECT_EQ(run_id(), "lie") << "there may be nobody else";
  const std::string incarnation = region_.directory_.ledger().incarnation();
  EXPECT_EQ(judge(of_run("run-7", "b")), "a begins again in run run-7");
  EXPECT_EQ(run_id(), "run-7");
  EXPECT_EQ(read_run_id(region_.options_.directory / "ledger"), "run-7");
  EXPECT_NE(region_.directory_.ledger().incarnation(), incarnation) << "it promised in the other";
  EXPECT_TRUE(region_.ending_.begins_again());
  EXPECT_FALSE(region_.ending_.outcome());
}

TEST_F(Joiner, BelievesMostOthersWhereTheFounderIsAway) {
  ASSERT_EQ(judge(of_run("lie", "c")), "");
  EXPECT_NE(judge(of_run("run-7", "d")), "");
  EXPECT_EQ(run_id(), "lie") << "one word against another";
  region_.options_.members.push_back({.region = "e"});
  region_.options_.members.push_back({.region = "f"});
  EXPECT_NE(judge(of_run("run-7", "e")), "");
  EXPECT_FALSE(region_.ending_.begins_again());
  EXPECT_NE(judge(of_run("run-7", "f")), "");
  EXPECT_EQ(run_id(), "run-7");
  EXPECT_TRUE(region_.ending_.begins_again());
}

TEST_F(Joiner, StaysInTheRunWhoseLogItHas) {
  ASSERT_EQ(judge(of_run("run-7", "c")), "");
  const LogEntry entry{.term = 1, .body = Membership{}};
  region_.directory_.ledger().append(std::span(&entry, 1));
  EXPECT_NE(judge(of_run("other", "b")), "");
  EXPECT_EQ(run_id(), "run-7");
  EXPECT_FALSE(region_.ending_.begins_again());
}

TEST_F(Joiner, IsNotEndedByOneWithAnotherConfiguration) {
  EXPECT_NE(judge(of_run("run-7", "c", "model.layers = 9\n")), "");
  EXPECT_FALSE(region_.ending_.outcome());
  EXPECT_NE(judge(of_run("run-7", "b", "model.layers = 9\n")), "");
  ASSERT_TRUE(region_.ending_.outcome()) << "the founder has the run's";
  EXPECT_EQ(region_.ending_.outcome()->exit_code, 2);
}

TEST_F(Joiner, IsEndedByTheOnlyOneItMeetsWhereThatSaysSoAgainAndAgain) {
  for (int i = 0; i < 3; ++i) judge(of_run("run-7", "c", "model.layers = 9\n"));
  EXPECT_FALSE(region_.ending_.outcome());
  judge(of_run("run-7", "c", "model.layers = 9\n"));
  ASSERT_TRUE(region_.ending_.outcome());
  EXPECT_EQ(region_.ending_.outcome()->exit_code, 2);
}

// c lies, and b was told by it.
TEST(PeerLinks, GiveAJoinerOfAnotherRunTimeToLearnBetter) {
  testing::LoneRegion region(
      0, Start::found, {},
      {{.region = "a", .address = "127.0.0.1:0"}, {.region = "b"}, {.region = "c"}});
  PeerLinks links(region.context());
  for (int i = 0; i < 8; ++i)
    EXPECT_NE(links.judge_greeting("c", serialize(of_run("lie", "c"))), "");
  for (int i = 0; i < 2; ++i)  // both dial
    EXPECT_NE(links.judge_greeting("b", serialize(of_run("lie", "b"))), "");
  EXPECT_FALSE(region.ending_.outcome());
  EXPECT_EQ(links.judge_greeting("b", serialize(of_run(region.directory_.ledger().run_id(), "b"))),
            "");
  for (int i = 0; i < 3; ++i) links.judge_greeting("b", serialize(of_run("other", "b")));
  EXPECT_FALSE(region.ending_.outcome());
  links.judge_greeting("b", serialize(of_run("other", "b")));
  ASSERT_TRUE(region.ending_.outcome()) << "it stays there";
  EXPECT_EQ(region.ending_.outcome()->exit_code, 4);
}

// Its founder lost its disk and founded another run.
TEST(PeerLinks, EndNoRegionThatHasRoundsForOneThatHasNone) {
  testing::LoneRegion region;
  region.begin();
  region.driver_->handle(WorkerContributed{region.contribution()});
  ASSERT_EQ(region.driver_->protocol().version(), 1U);
  PeerLinks links(region.context());
  Greeting other = of_run("other", "b");
  const std::string reason = links.judge_greeting("b", serialize(other));
  EXPECT_NE(reason.find("empty the directory of b"), std::string::npos) << reason;
  links.on_refused_by("b", inter::LinkError(inter::Errc::refused, reason));
  EXPECT_FALSE(region.ending_.outcome());
  other.version = 1;
  links.judge_greeting("b", serialize(other));
  ASSERT_TRUE(region.ending_.outcome()) << "what is trained there is not to be lost, either";
  EXPECT_EQ(region.ending_.outcome()->exit_code, 4);
}

TEST(PeerLinks, EndWhereTooManyAreOfAnotherRun) {
  testing::LoneRegion region;
  PeerLinks links(region.context());
  const Greeting other{.run_id = "other", .region = "b", .shared_config = ""};
  EXPECT_NE(links.judge_greeting("b", serialize(other)), "");
  ASSERT_TRUE(region.ending_.outcome());
  EXPECT_EQ(region.ending_.outcome()->exit_code, 4);
}

}  // namespace
}  // namespace causeway::diloco
