// Who dials whom, and peers that come and go while a mesh runs.
#include "inter/base/error.h"
#include "tests/inter/mesh/mesh_fixture.h"

namespace causeway::inter {
namespace {

using testing::HasSubstr;

class Roster : public MeshTest {
 protected:
  // Started, and without peers yet.
  Region& start(const std::string& self) {
    Region& region = add(self);
    region.mesh->start();
    return region;
  }
  static Endpoint at(const Region& region) { return {"127.0.0.1", region.mesh->listening_port()}; }
};

const Endpoint kUndialled{"127.0.0.1", 1};  // by name order the other side dials

TEST_F(Roster, PeerThatIsAddedWhileRunningComesUp) {
  Region& a = start("a");
  Region& b = start("b");
  EXPECT_FALSE(a.mesh->is_up("b"));
  a.mesh->send("b", "to nobody");
  b.mesh->set_peers({{"a", kUndialled}});
  a.mesh->set_peers({{"b", at(b)}});
  ASSERT_TRUE(run_until([&] { return a.mesh->is_up("b") && b.mesh->is_up("a"); }));
  a.mesh->send("b", "hello");
  ASSERT_TRUE(run_until([&] { return !b.messages.empty(); }));
  EXPECT_EQ(b.messages[0], "a:hello");
}

TEST_F(Roster, PeerThatIsRemovedGoesDownAndMayReturn) {
  Region& a = start("a");
  Region& b = start("b");
  b.mesh->set_peers({{"a", kUndialled}});
  a.mesh->set_peers({{"b", at(b)}});
  ASSERT_TRUE(run_until([&] { return a.mesh->is_up("b") && b.mesh->is_up("a"); }));
  b.mesh->set_peers({});
  EXPECT_FALSE(b.mesh->is_up("a"));
  b.mesh->push_blob("a", BlobId{});
  ASSERT_TRUE(run_until([&] { return !a.downs.empty() && !b.downs.empty(); }));
  EXPECT_EQ(b.downs[0], "a:the region left the roster");
  ASSERT_TRUE(run_until([&] { return log_.has("region \"a\" is not a peer of \"b\""); }));
  b.mesh->set_peers({{"a", kUndialled}});
  EXPECT_TRUE(run_until([&] { return a.mesh->is_up("b") && b.mesh->is_up("a"); }));
}

// Also where a peer is made anew because it can be dialled no longer.
TEST_F(Roster, WhatLinksCarriedIsNotForgottenWithThePeer) {
  Region& a = start("a");
  Region& b = start("b");
  b.mesh->set_peers({{"a", kUndialled}});
  a.mesh->set_peers({{"b", at(b)}});
  ASSERT_TRUE(run_until([&] { return a.mesh->is_up("b") && b.mesh->is_up("a"); }));
  const LinkStats before = a.mesh->stats().at("b");
  EXPECT_FALSE(before.removed);
  EXPECT_GT(before.tx_bytes, 0U);
  const auto expect_kept = [&](bool removed) {
    const LinkStats now = a.mesh->stats().at("b");
    EXPECT_EQ(now.removed, removed);
    EXPECT_FALSE(now.up);
    EXPECT_GE(now.tx_bytes, before.tx_bytes);
    EXPECT_GE(now.rx_bytes, before.rx_bytes);
    EXPECT_EQ(now.connects, before.connects);
  };
  a.mesh->set_peers({{"b", Endpoint{}}});
  expect_kept(false);
  a.mesh->set_peers({});
  expect_kept(true);
  ASSERT_TRUE(run_until([&] { return !b.downs.empty(); }));
  a.mesh->set_peers({{"b", at(b)}});
  expect_kept(false);
  ASSERT_TRUE(run_until([&] { return a.mesh->is_up("b") && b.mesh->is_up("a"); }));
  EXPECT_GT(a.mesh->stats().at("b").connects, before.connects);
}

TEST_F(Roster, WhoDropsAllPeersTellsThemWhy) {
  Region& a = start("a");
  Region& b = start("b");
  b.mesh->set_peers({{"a", kUndialled}});
  a.mesh->set_peers({{"b", at(b)}});
  ASSERT_TRUE(run_until([&] { return a.mesh->is_up("b") && b.mesh->is_up("a"); }));
  b.mesh->drop_peers("its disk is full");
  EXPECT_FALSE(b.mesh->is_up("a"));
  ASSERT_TRUE(run_until([&] { return log_.has("b refused us: its disk is full"); }));
  b.mesh->set_peers({{"a", kUndialled}});
  EXPECT_TRUE(run_until([&] { return a.mesh->is_up("b") && b.mesh->is_up("a"); }));
}

TEST_F(Roster, OtherPeersDoNotNoticeAChange) {
  Region& a = start("a");
  Region& b = start("b");
  Region& c = start("c");
  b.mesh->set_peers({{"a", kUndialled}});
  c.mesh->set_peers({{"a", kUndialled}});
  a.mesh->set_peers({{"b", at(b)}, {"c", at(c)}});
  ASSERT_TRUE(run_until([&] { return a.mesh->is_up("b") && a.mesh->is_up("c"); }));
  a.mesh->set_peers({{"c", at(c)}});
  ASSERT_TRUE(run_until([&] { return !b.downs.empty(); }));
  EXPECT_TRUE(a.mesh->is_up("c"));
  EXPECT_EQ(a.ups, 2);
}

TEST_F(Roster, ChangedAddressIsDialledNext) {
  Region& a = start("a");
  Region& b = start("b");
  b.mesh->set_peers({{"a", kUndialled}});
  a.mesh->set_peers({{"b", kUndialled}});
  ASSERT_TRUE(run_until([&] { return log_.has("no link to b at 127.0.0.1:1"); }));
  a.mesh->set_peers({{"b", at(b)}});
  EXPECT_TRUE(run_until([&] { return a.mesh->is_up("b"); }));
}

TEST_F(Roster, SecondAddressIsDialledIfNobodyIsAtTheFirst) {
  Region& a = start("a");
  Region& b = start("b");
  b.mesh->set_peers({{"a", kUndialled}});
  a.mesh->set_peers({{"b", kUndialled}}, {{"b", {"127.0.0.1", 2}}});
  ASSERT_TRUE(run_until([&] { return log_.has("no link to b at 127.0.0.1:1 or 127.0.0.1:2"); }));
  a.mesh->set_peers({{"b", kUndialled}}, {{"b", at(b)}});
  EXPECT_TRUE(run_until([&] { return a.mesh->is_up("b") && b.mesh->is_up("a"); }));
}

TEST_F(Roster, AddressThatLedToThePeerIsDialledFirstTheNextTime) {
  asio::ip::tcp::acceptor nobody(context_, {asio::ip::address_v4::loopback(), 0});
  int visits = 0;
  std::function<void()> wait = [&] {
    nobody.async_accept([&](std::error_code error, const asio::ip::tcp::socket&) {
      if (error) return;
      ++visits;
      wait();
    });
  };
  wait();
  Region& a = start("a");
  Region& b = start("b");
  b.mesh->set_peers({{"a", kUndialled}});
  a.mesh->set_peers({{"b", {"127.0.0.1", nobody.local_endpoint().port()}}}, {{"b", at(b)}});
  ASSERT_TRUE(run_until([&] { return b.mesh->is_up("a"); }));
  const int visits_before = visits;
  EXPECT_GE(visits_before, 1);
  b.mesh->set_peers({});
  ASSERT_TRUE(run_until([&] { return !a.downs.empty() && !b.downs.empty(); }));
  b.mesh->set_peers({{"a", kUndialled}});
  ASSERT_TRUE(run_until([&] { return b.mesh->is_up("a"); }));
  EXPECT_EQ(visits, visits_before);
}

TEST_F(Roster, SecondAddressIsDialledIfAnotherRegionIsAtTheFirst) {
  Region& a = start("a");
  Region& b = start("b");
  Region& c = start("c");
  b.mesh->set_peers({{"a", kUndialled}});
  a.mesh->set_peers({{"b", at(c)}}, {{"b", at(b)}});
  EXPECT_TRUE(run_until([&] { return a.mesh->is_up("b") && b.mesh->is_up("a"); }));
  EXPECT_FALSE(a.mesh->is_up("c"));
}

// By name "a" would dial, but only "a" can be dialled, or only "b".
class T8DialOnly : public Roster {};

TEST_F(T8DialOnly, RegionThatCanOnlyDialOutReachesAListenerWhateverTheirNames) {
  for (const bool first_listens : {true, false}) {
    MeshOptions outbound = options(first_listens ? "b" : "a");
    outbound.dial_only = true;
    Region& listener = start(first_listens ? "a" : "b");
    listener.mesh->set_peers({{outbound.self, Endpoint{}}});
    outbound.peers = {{first_listens ? "a" : "b", at(listener)}};
    Region& dialler = add(outbound);
    dialler.mesh->start();
    EXPECT_EQ(dialler.mesh->listening_port(), 0);
    EXPECT_TRUE(run_until([&] { return dialler.ups == 1 && listener.ups == 1; }));
  }
}

TEST_F(T8DialOnly, TwoRegionsThatCanOnlyDialOutAreRefusedWithAdvice) {
  MeshOptions outbound = options("a");
  outbound.dial_only = true;
  outbound.peers = {{"b", Endpoint{}}};
  try {
    add(outbound).mesh->start();
    ADD_FAILURE() << "nobody can dial";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), Errc::unreachable_peer);
    EXPECT_THAT(error.what(), HasSubstr("a and b can both only dial out"));
  }
}

TEST_F(T8DialOnly, TwoThatCanOnlyDialOutStartWhereBothDialAThird) {
  MeshOptions outbound = options("a");
  outbound.dial_only = true;
  outbound.peers = {{"b", Endpoint{}}, {"c", kUndialled}};
  add(outbound).mesh->start();
  EXPECT_TRUE(log_.has("a and b can both only dial out, so they talk by way of a third"));
}

// Anybody in the run may name it: that must not end a region, now or at its next start.
TEST_F(T8DialOnly, APeerThatOthersNameEndsNobodyAndIsLoggedOnce) {
  MeshOptions outbound = options("a");
  outbound.dial_only = true;
  outbound.peers = {{"b", Endpoint{}}};
  outbound.named_by_others = {"b"};
  Region& a = add(outbound);
  a.mesh->start();
  const std::string sentence = "a and b can both only dial out, so they talk by way of a third";
  EXPECT_TRUE(log_.has(sentence));
  EXPECT_TRUE(log_.has("`causeway members add b HOST:PORT`"));
  a.mesh->set_peers({{"b", Endpoint{}}, {"c", Endpoint{}}});
  const std::string text = log_.text();
  EXPECT_EQ(text.find(sentence), text.rfind(sentence));
  EXPECT_TRUE(log_.has("a and c can both only dial out"));
}

}  // namespace
}  // namespace causeway::inter
