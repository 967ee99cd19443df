#include "diloco/region/peers.h"

#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

Status at(Round version, Round payloads_from = 0) {
  Status status;
  status.version = version;
  status.payloads_from = payloads_from;
  return status;
}

TEST(Peers, SaysNothingToWhoIsNotUp) {
  Outbox out;
  Peers peers(out);
  peers.set_up("b", "disk1");
  peers.set_up("c", "disk2");
  EXPECT_TRUE(peers.set_down("c"));
  EXPECT_FALSE(peers.set_down("c"));
  peers.send("c", Finished{});
  peers.broadcast(Finished{});
  const std::vector<Action> actions = out.take();
  ASSERT_EQ(actions.size(), 1U);
  EXPECT_EQ(std::get<SendMessage>(actions[0]).peer, "b");
  EXPECT_EQ(peers.incarnation("b"), "disk1");
  EXPECT_EQ(peers.incarnation("c"), "");
}

TEST(Peers, KeepTheNewestWordOfALink) {
  Outbox out;
  Peers peers(out);
  peers.set_up("b", "disk1");
  EXPECT_FALSE(peers.any_heard());
  EXPECT_EQ(peers.hear("b", at(3)), Peers::Heard::news);
  EXPECT_EQ(peers.hear("b", at(3)), Peers::Heard::same);
  EXPECT_EQ(peers.hear("b", at(2)), Peers::Heard::stale);
  EXPECT_EQ(peers.status("b")->version, 3U);
  EXPECT_TRUE(peers.are_ahead_of(0, 2, "b"));
  EXPECT_FALSE(peers.are_ahead_of(0, 3, "b"));
  // A new link may be to a region that lost its disk.
  peers.set_up("b", "disk2");
  EXPECT_EQ(peers.hear("b", at(2)), Peers::Heard::news);
}

// Nobody waits for records that one member alone claims to have.
TEST(Peers, AreAheadWhenTwoOfThemSaySoOrTheLeader) {
  Outbox out;
  Peers peers(out);
  for (const char* name : {"b", "c"}) peers.set_up(name, "disk");
  peers.hear("b", at(~Round{0}));
  EXPECT_FALSE(peers.are_ahead_of(0, 2, std::nullopt));
  EXPECT_FALSE(peers.are_ahead_of(0, 2, "c"));
  EXPECT_TRUE(peers.are_ahead_of(0, 2, "b"));
  peers.hear("c", at(3));
  EXPECT_TRUE(peers.are_ahead_of(0, 2, std::nullopt));
  EXPECT_FALSE(peers.are_ahead_of(0, 3, std::nullopt));
}

// Of three, one against the other two is named and left out; two against one end it.
TEST(Peers, AContradictionCountsWhenAMajorityStandsBehindIt) {
  Outbox out;
  Peers peers(out);
  const Membership members{.members = {{.region = "a"}, {.region = "b"}, {.region = "c"}}};
  for (const char* name : {"b", "c"}) peers.set_up(name, "disk");
  peers.doubt("b", "the log of b differs", members, Time{1});
  peers.doubt("b", "the log of b differs", members, Time{2});
  EXPECT_TRUE(peers.doubts("b"));
  EXPECT_FALSE(out.ended());
  const std::vector<Action> actions = out.take();
  ASSERT_EQ(actions.size(), 1U);  // named once
  EXPECT_THAT(std::get<Note>(actions[0]).text, ::testing::HasSubstr("b is not listened to"));

  peers.set_up("b", "disk");  // its ledger may have been restored
  EXPECT_FALSE(peers.doubts("b"));
  peers.doubt("c", "the log of c differs", members, Time{3});
  EXPECT_FALSE(out.ended());
  peers.doubt("b", "the log of b differs", members, Time{4});
  EXPECT_TRUE(out.ended());
  const std::vector<Action> last = out.take();
  EXPECT_EQ(std::get<EndRun>(last.back()).exit_code, 4);
  EXPECT_THAT(std::get<EndRun>(last.back()).message,
              ::testing::HasSubstr("empty it and start this region with --join"));
}

// One whose disk errs now and then is waited for at the end; one that lies again and again is not.
TEST(Peers, WhoWasRightForVeryManyRecordsIsBelievedAgain) {
  Outbox out;
  Peers peers(out);
  const Membership members{.members = {{.region = "a"}, {.region = "b"}, {.region = "c"}}};
  const auto err = [&] {
    peers.doubt("b", "the log of b differs", members, Time{1});
    peers.set_down("b");
  };
  const auto come_back = [&] {
    peers.set_up("b", "disk");
    peers.hear("b", at(3));
  };
  const auto commit = [&](int records) {
    for (int i = 0; i < records; ++i) peers.note_record();
  };
  for (int times = 0; times < 4; ++times) {
    come_back();
    commit(1'000);
    err();
  }
  EXPECT_FALSE(peers.doubts_for_good("b")) << "long between";
  for (int times = 0; times < 2; ++times) {
    come_back();
    commit(999);
    err();
  }
  EXPECT_TRUE(peers.doubts_for_good("b"));
  commit(5'000);
  peers.set_up("b", "disk");
  commit(5'000);
  EXPECT_TRUE(peers.doubts_for_good("b")) << "it was not there, or said nothing";
  peers.hear("b", at(~Round{0}));
  commit(999);
  EXPECT_TRUE(peers.doubts_for_good("b")) << "whatever it claims";
  commit(1);
  EXPECT_FALSE(peers.doubts_for_good("b"));
}

TEST(Peers, OfTwoNobodyCanTellWhoIsWrong) {
  Outbox out;
  Peers peers(out);
  peers.set_up("b", "disk");
  peers.doubt("b", "the log of b differs", {.members = {{.region = "a"}, {.region = "b"}}},
              Time{1});
  EXPECT_TRUE(out.ended());
}

TEST(Peers, PayloadsAreAskedOfTheContributorFirst) {
  Outbox out;
  Peers peers(out);
  for (const char* name : {"b", "c"}) peers.set_up(name, name);
  EXPECT_EQ(peers.holder_of("c", 4), "c");
  peers.hear("b", at(5, 2));
  EXPECT_EQ(peers.holder_of("c", 4), "b");
  peers.hear("c", at(5, 4));
  EXPECT_EQ(peers.holder_of("c", 4), "c");
  EXPECT_EQ(peers.holder_of("c", 3), "b");
  EXPECT_FALSE(peers.any_has_payloads(1));  // let go of
  EXPECT_FALSE(peers.any_has_payloads(5));  // not decided yet
  peers.set_down("b");
  EXPECT_FALSE(peers.has_payloads("b", 4));
}

TEST(Peers, NameThoseOfAnotherState) {
  Outbox out;
  Peers peers(out);
  Status other = at(2);
  other.applied = Applied{2, Digest{1}};
  for (const char* name : {"b", "c"}) {
    peers.set_up(name, name);
    peers.hear(name, other);
  }
  EXPECT_THAT(peers.that_differ_from({2, Digest{}}), ::testing::ElementsAre("b", "c"));
  EXPECT_THAT(peers.that_differ_from({2, Digest{1}}), ::testing::IsEmpty());
  EXPECT_THAT(peers.that_differ_from({1, Digest{}}), ::testing::IsEmpty());
}

}  // namespace
}  // namespace causeway::diloco
