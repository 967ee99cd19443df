// Regions without a link between them that talk by way of a third one.
#include "inter/mesh/mesh.h"
#include "tests/inter/mesh/detour_fixture.h"

namespace causeway::inter {
namespace {

using testing::HasSubstr;

TEST_F(DetourTest, WithoutALinkAThirdRegionCarriesMessages) {
  start_all();
  ASSERT_TRUE(meet("c"));
  EXPECT_EQ(a_->ways["b"], "c");
  EXPECT_EQ(b_->ways["a"], "c");
  EXPECT_FALSE(a_->mesh->stats()["b"].up) << "there is no link";
  expect_messages("small");
  expect_messages(std::string(3'000'000, 'x'));
  EXPECT_TRUE(c_->messages.empty()) << "it is not for c";
  EXPECT_TRUE(c_->ways.contains("a") && c_->ways.contains("b"));
  EXPECT_TRUE(log_.has("a: b is up by way of c"));
}

TEST_F(DetourTest, RegionsThatBothOnlyDialOutTalkByWayOfAThirdOne) {
  MeshOptions of_c = quick("c");
  of_c.peers = {{"a", Endpoint{}}, {"b", Endpoint{}}};
  c_ = &add(of_c);
  c_->mesh->start();
  const auto start_outbound = [&](const std::string& self, const std::string& other) {
    MeshOptions outbound = quick(self);
    outbound.dial_only = true;
    outbound.peers = {{other, Endpoint{}}};
    outbound.named_by_others = {other};
    point(outbound, "c", c_->mesh->listening_port());
    Region& region = add(outbound);
    region.mesh->start();
    return &region;
  };
  a_ = start_outbound("a", "b");
  b_ = start_outbound("b", "a");
  ASSERT_TRUE(meet("c"));
  expect_messages("by way of c");
  const BlobId id = a_->spool.put(make_bytes(100'000));
  a_->mesh->push_blob("b", id);
  EXPECT_TRUE(run_until([&] { return !b_->blobs.empty(); })) << "blobs too";
}

TEST_F(DetourTest, MessagesKeepTheirOrder) {
  start_all();
  ASSERT_TRUE(meet("c"));
  for (int i = 0; i < 300; ++i) a_->mesh->send("b", std::to_string(i));
  ASSERT_TRUE(run_until([&] { return b_->messages.size() == 300; }));
  for (int i = 0; i < 300; ++i) EXPECT_EQ(b_->messages[std::size_t(i)], "a:" + std::to_string(i));
}

TEST_F(DetourTest, ALinkTakesOverAndWhatCarriedBeforeIsUsedAgainWhenItIsLost) {
  start_all();
  ASSERT_TRUE(meet("c"));
  const auto proxy = std::make_shared<CutProxy>(context_, b_->mesh->listening_port());
  proxy->accept();
  a_->mesh->set_peers(
      {{"b", {"127.0.0.1", proxy->port()}}, {"c", {"127.0.0.1", c_->mesh->listening_port()}}});
  ASSERT_TRUE(meet(""));
  EXPECT_TRUE(a_->mesh->stats()["b"].up);
  expect_messages("directly");
  const BlobId id = a_->spool.put(make_bytes(100'000));
  a_->mesh->push_blob("b", id);
  EXPECT_TRUE(run_until([&] { return !b_->blobs.empty(); })) << "blobs too";
  proxy->close();
  ASSERT_TRUE(meet("c"));
  expect_messages("by way of c again");
}

TEST_F(DetourTest, TheThirdRegionPassesBlobsOn) {
  start_all();
  ASSERT_TRUE(meet("c"));
  const BlobId id = b_->spool.put(make_bytes(100'000));
  b_->mesh->push_blob("a", id);
  EXPECT_TRUE(run_until([&] { return !a_->blobs.empty(); }));
  EXPECT_FALSE(a_->mesh->stats()["b"].up);
}

TEST_F(DetourTest, WhoHasNoLinkIsAskedForNoBlob) {
  start_all();
  ASSERT_TRUE(meet("c"));
  a_->mesh->fetch_blob("b", b_->spool.put(make_bytes(100'000)));
  expect_messages("meanwhile");
  EXPECT_TRUE(a_->mesh->is_up("b")) << "it would have ended the connection";
}

TEST_F(DetourTest, ItEndsWithTheLinksThatCarryIt) {
  start_all();
  ASSERT_TRUE(meet("c"));
  stop(*c_->mesh);
  ASSERT_TRUE(run_until([&] { return !a_->mesh->is_up("b") && !b_->mesh->is_up("a"); }));
  EXPECT_FALSE(a_->mesh->is_up("c"));
}

TEST_F(DetourTest, NobodyIsReachedWhoLeftTheRoster) {
  start_all();
  ASSERT_TRUE(meet("c"));
  b_->mesh->set_peers({{"c", {"127.0.0.1", c_->mesh->listening_port()}}});
  ASSERT_TRUE(run_until([&] { return !a_->mesh->is_up("b"); }));
  EXPECT_TRUE(run_until([&] { return log_.has("a: no link to b by way of c: "); }));
  EXPECT_FALSE(a_->mesh->is_up("b"));
}

TEST_F(DetourTest, NorWhoseCertificateWasRevoked) {
  start_all();
  ASSERT_TRUE(meet("c"));
  revoke_region(pki_.path(), "b");
  ASSERT_TRUE(run_until([&] { return !a_->mesh->is_up("b") && !a_->downs.empty(); }));
  EXPECT_THAT(a_->downs.front(), HasSubstr("b:the peer's certificate was revoked"));
}

TEST_F(DetourTest, WhatTheTwoGreetWithIsJudgedAsOnALink) {
  start_c();
  b_ = &with_link_to_c("b", "a", c_->mesh->listening_port());
  b_->verdict = "another run";
  b_->judged = "a";
  b_->mesh->start();
  start_a(c_->mesh->listening_port());
  ASSERT_TRUE(run_until([&] { return !a_->refusals.empty(); }));
  EXPECT_EQ(a_->refusals.front(), "b:another run");
  EXPECT_FALSE(a_->mesh->is_up("b"));
}

// Two processes of "a" that live both: one has a link to "b", the other one to "c" alone.
class DetourOfNamesakes : public DetourTest {
 protected:
  void start_b_and_c() {
    start_c();
    start_b(c_->mesh->listening_port());
  }
  Region& by_link(const std::string& process) {
    MeshOptions made = quick("a");
    made.detours = false;  // else it comes to "c" by way of "b", where the other one has the link
    point(made, "b", b_->mesh->listening_port());
    return start(add(made), process);
  }
  Region& by_detour(const std::string& process) {
    return start(with_link_to_c("a", "b", c_->mesh->listening_port()), process);
  }
  bool b_meets_a(const std::string& via) {
    return run_until([&] { return b_->ways.contains("a") && b_->mesh->stats()["a"].via == via; });
  }

 private:
  static Region& start(Region& region, const std::string& process) {
    region.process = process;
    region.mesh->start();
    return region;
  }
};

TEST_F(DetourOfNamesakes, WhoBeganLaterTakesNoLinkByWayOfAThirdRegion) {
  start_b_and_c();
  Region& second = by_detour("process 2");
  ASSERT_TRUE(b_meets_a("c"));
  Region& first = by_link("process 1");
  ASSERT_TRUE(run_until([&] { return !second.refusals.empty(); }));
  EXPECT_THAT(second.refusals[0],
              AllOf(HasSubstr("two processes use the certificate of a: one at 127.0.0.1:"),
                    HasSubstr(", whose link stays, and one by way of c; end one of them")));
  EXPECT_TRUE(b_->mesh->stats()["a"].up) << "the first one's link";
  EXPECT_TRUE(first.refusals.empty());
}

TEST_F(DetourOfNamesakes, WhoBeganFirstTakesPartByWayOfAThirdRegion) {
  start_b_and_c();
  Region& first = by_detour("process 1");
  ASSERT_TRUE(b_meets_a("c"));
  Region& second = by_link("process 2");
  ASSERT_TRUE(run_until([&] { return !second.refusals.empty(); }));
  EXPECT_THAT(second.refusals[0],
              HasSubstr("two processes use the certificate of a: one by way of c, whose link "
                        "stays, and one at 127.0.0.1; end one of them"));
  EXPECT_EQ(b_->mesh->stats()["a"].via, "c");
  EXPECT_TRUE(first.refusals.empty());
}

}  // namespace
}  // namespace causeway::inter
