// Both regions of a pair dial, and one link is left; two processes with one certificate.
#include "inter/mesh/mesh.h"
#include "tests/inter/mesh/mesh_fixture.h"

namespace causeway::inter {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class BothDial : public MeshTest {
 protected:
  static constexpr std::uint16_t kNobody = 1;

  Region& start(const std::string& self, const std::string& peer, std::uint16_t port,
                std::chrono::milliseconds second_dialler_delay, const std::string& process = {}) {
    MeshOptions made = options(self);
    made.second_dialler_delay = second_dialler_delay;
    point(made, peer, port);
    Region& region = add(made);
    region.process = process;
    region.mesh->start();
    return region;
  }
  bool linked(const Region& a, const Region& b) const {
    return a.mesh->is_up("b") && b.mesh->is_up("a");
  }
  // Over one and the same link, or it would be lost.
  void expect_messages(Region& a, Region& b) {
    for (std::size_t i = 1; i <= 20; ++i) {
      a.mesh->send("b", "to b");
      b.mesh->send("a", "to a");
      ASSERT_TRUE(run_until([&] { return a.messages.size() >= i && b.messages.size() >= i; }));
    }
  }
};

TEST_F(BothDial, AWrongAddressAtTheFirstDoesNotBreakThePair) {
  Region& a = start("a", "b", kNobody, std::chrono::milliseconds(0));
  Region& b = start("b", "a", a.mesh->listening_port(), std::chrono::milliseconds(0));
  ASSERT_TRUE(run_until([&] { return linked(a, b); }));
  expect_messages(a, b);
  EXPECT_EQ(a.ups + b.ups, 2) << "it stays";
  const BlobId id = a.spool.put(make_bytes(100'000));
  a.mesh->push_blob("b", id);
  EXPECT_TRUE(run_until([&] { return !b.blobs.empty(); })) << "and carries data both ways";
}

TEST_F(BothDial, ALinkThatWasLostIsDialledAgainFromThatSide) {
  Region& a = start("a", "b", kNobody, std::chrono::milliseconds(0));
  const auto proxy = std::make_shared<CutProxy>(context_, a.mesh->listening_port());
  proxy->accept();
  Region& b = start("b", "a", proxy->port(), std::chrono::milliseconds(0));
  ASSERT_TRUE(run_until([&] { return linked(a, b); }));
  proxy->cut_after(1);
  a.mesh->send("b", "lost");
  ASSERT_TRUE(run_until([&] { return !a.downs.empty() && !b.downs.empty() && linked(a, b); }));
  proxy->close();
}

TEST_F(BothDial, OneLinkIsLeftWhenBothSucceed) {
  for (int i = 0; i < 20; ++i) {
    Region& a = start("a", "b", kNobody, std::chrono::milliseconds(0));
    Region& b = start("b", "a", a.mesh->listening_port(), std::chrono::milliseconds(0));
    a.mesh->set_peers({{"b", {"127.0.0.1", b.mesh->listening_port()}}});
    ASSERT_TRUE(run_until([&] { return linked(a, b); }));
    ASSERT_TRUE(run_until([&] {
      return a.ups - static_cast<int>(a.downs.size()) == 1 &&
             b.ups - static_cast<int>(b.downs.size()) == 1;
    }));
    EXPECT_LE(a.ups, 2);
    EXPECT_LE(b.ups, 2);
    stop(*a.mesh);
    stop(*b.mesh);
  }
}

TEST_F(BothDial, TheOneThatShouldBeDialledWaits) {
  start_pair();
  Region& b = *regions_[0];
  Region& a = *regions_[1];
  ASSERT_TRUE(run_until([&] { return linked(a, b); }));
  EXPECT_FALSE(log_.has("b: no link to a"));
  expect_messages(a, b);
}

TEST_F(BothDial, TwoProcessesWithOneCertificateAreToldSoAndTheFirstKeepsItsLink) {
  start_pair();
  Region& b = *regions_[0];
  ASSERT_TRUE(run_until([&] { return b.mesh->is_up("a"); }));
  Region& twin = start("a", "b", b.mesh->listening_port(), std::chrono::minutes(5));
  Region& a = *regions_[1];
  ASSERT_TRUE(run_until([&] { return !a.refusals.empty() || !twin.refusals.empty(); }));
  EXPECT_THAT((a.refusals.empty() ? twin : a).refusals[0],
              AllOf(HasSubstr("two processes use the certificate of a: one at 127.0.0.1:"),
                    HasSubstr(", whose link stays, and one at 127.0.0.1; "),
                    HasSubstr("end one of them"), HasSubstr("`causeway certs revoke a`")));
  EXPECT_TRUE(log_.has("b: refused 127.0.0.1:"));
  EXPECT_TRUE(log_.has(": two processes use the certificate of a"));
  const int ups = b.ups;
  EXPECT_EQ(ups, 4) << "the first link, and three that ended the one before";
  Region& keeps = a.mesh->is_up("b") ? a : twin;
  b.mesh->send("a", "to the one that stays");
  ASSERT_TRUE(run_until([&] { return !keeps.messages.empty(); }));
  EXPECT_EQ(b.ups, ups);
}

// It dies as it begins, say, and nobody is told: its packets are lost.
TEST_F(BothDial, ARegionThatIsStartedAgainAndAgainIsNotTakenForTwo) {
  const auto soon = std::chrono::milliseconds(0);
  Region& b = start("b", "c", kNobody, soon);
  for (int i = 1; i <= 6; ++i) {
    const auto proxy = std::make_shared<CutProxy>(context_, b.mesh->listening_port());
    proxy->accept();
    Region& c = start("c", "b", proxy->port(), soon, "process " + std::to_string(i));
    ASSERT_TRUE(run_until([&] { return b.ups == i || !c.refusals.empty(); }));
    EXPECT_TRUE(c.refusals.empty()) << i << ": " << c.refusals.front();
    proxy->stall();
    stop(*c.mesh);
  }
}

// A machine that was copied, or an old one that was started again.
TEST_F(BothDial, OfTwoProcessesThatBothLiveTheOneThatBeganFirstHasTheLink) {
  const auto soon = std::chrono::milliseconds(0);
  Region& b = start("b", "c", kNobody, soon);
  const std::uint16_t port = b.mesh->listening_port();
  Region& first = start("c", "b", port, soon, "process 1");
  ASSERT_TRUE(run_until([&] { return b.mesh->is_up("c"); }));
  Region& twin = start("c", "b", port, soon, "process 2");
  ASSERT_TRUE(run_until([&] { return !twin.refusals.empty(); }));
  EXPECT_THAT(twin.refusals[0],
              AllOf(HasSubstr("two processes use the certificate of c: one at 127.0.0.1:"),
                    HasSubstr(", whose link stays, and one at 127.0.0.1; end one of them")));
  EXPECT_TRUE(log_.has("b: c is down: the region connected anew"));
  EXPECT_TRUE(log_.has("b: c is down: two processes use the certificate of c"));
  EXPECT_EQ(b.ups, 3) << "the first link, one of what may be a restart, and the first one again";
  ASSERT_TRUE(run_until([&] { return twin.refusals.size() > 5 && first.mesh->is_up("b"); }));
  EXPECT_EQ(b.ups, 3);
  EXPECT_TRUE(first.refusals.empty());
  stop(*first.mesh);
  EXPECT_TRUE(run_until([&] { return twin.mesh->is_up("b"); })) << "there is one left";
}

}  // namespace
}  // namespace causeway::inter
