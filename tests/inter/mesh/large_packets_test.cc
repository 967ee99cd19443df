// Paths on which small packets pass and large ones are lost in silence (MTU).
#include "inter/base/tcp.h"
#include "inter/mesh/mesh.h"
#include "tests/inter/mesh/mesh_fixture.h"

namespace causeway::inter {
namespace {

using Large = CutProxy::Large;

constexpr std::size_t kPassedBytes = 3'000'000;

class LargePacketsTest : public MeshTest {
 protected:
  LargePacketsTest() {
    MeshOptions listener = quick("b");
    point(listener, "a", 1);
    b_ = &add(listener);
    b_->mesh->start();
    proxy_ = std::make_shared<CutProxy>(context_, b_->mesh->listening_port());
    proxy_->accept();
  }
  ~LargePacketsTest() override { proxy_->close(); }

  MeshOptions quick(const std::string& self) {
    MeshOptions made = options(self);
    made.idle_deadline = std::chrono::seconds(4);
    made.data_connections = 2;
    made.small_segments_for = small_for_;
    return made;
  }
  void start_a(std::chrono::milliseconds handshake_deadline = std::chrono::milliseconds(500)) {
    MeshOptions dialler = quick("a");
    dialler.handshake_deadline = handshake_deadline;
    point(dialler, "b", proxy_->port());
    a_ = &add(dialler);
    a_->mesh->start();
  }
  bool meet() {
    return run_until([&] { return a_->mesh->is_up("b") && b_->mesh->is_up("a"); });
  }
  bool passes(Region& from, Region& to) {
    const BlobId id = from.spool.put(make_bytes(kPassedBytes, ++seed_));
    from.mesh->push_blob(to.name, id);
    return run_until([&] { return to.spool.has(id); });
  }

  std::shared_ptr<CutProxy> proxy_;
  Region* a_ = nullptr;
  Region* b_ = nullptr;
  unsigned seed_ = 0;
  std::chrono::milliseconds small_for_ = std::chrono::minutes(1);
};

TEST_F(LargePacketsTest, AHandshakeThatStallsIsTriedWithSmallSegments) {
  proxy_->treat_large(Large::stall_all);
  start_a();
  ASSERT_TRUE(meet());
  EXPECT_TRUE(
      log_.has("no TLS handshake within 0.5 s, though the connection stands: the other "
               "end hangs, or large packets are lost on the way (MTU); `causeway doctor` "
               "tells which"));
  EXPECT_TRUE(log_.has(
      "answers now that it gets small packets, and did not before: it hung for a while, or "
      "something on the way drops large ones in silence (MTU)"));
  EXPECT_TRUE(passes(*a_, *b_));
  EXPECT_TRUE(passes(*b_, *a_));
}

TEST_F(LargePacketsTest, BulkGoesOnInSmallSegmentsWhereThePathChanges) {
  start_a();
  ASSERT_TRUE(meet());
  ASSERT_TRUE(passes(*a_, *b_));
  proxy_->treat_large(Large::stall);
  EXPECT_TRUE(passes(*a_, *b_));
  EXPECT_TRUE(a_->downs.empty()) << "small messages pass";
}

TEST_F(LargePacketsTest, LargeOnesComeAgainWhereThePathWasOnlyDark) {
  small_for_ = std::chrono::milliseconds(20);
  start_a();
  ASSERT_TRUE(meet());
  proxy_->treat_large(Large::reset_when_used);
  ASSERT_TRUE(passes(*a_, *b_));
  proxy_->treat_large(Large::pass);
  const auto large = [&] {
    return passes(*a_, *b_) &&
           a_->mesh->stats()["b"].segment_bytes > std::uint32_t{kSmallSegmentBytes};
  };
  EXPECT_TRUE(run_until(large));
  EXPECT_TRUE(a_->downs.empty());
}

// The handshake's packets are small enough, those of bulk are not: the other end gives it up.
TEST_F(LargePacketsTest, SoItDoesWhereConnectionsEndAsSoonAsTheyAreUsed) {
  proxy_->treat_large(Large::reset_when_used);
  start_a();
  ASSERT_TRUE(meet());
  EXPECT_TRUE(passes(*b_, *a_));
}

TEST_F(LargePacketsTest, WhereNothingIsLostNothingIsTried) {
  start_a(std::chrono::minutes(1));  // however busy the machine is
  ASSERT_TRUE(meet());
  EXPECT_TRUE(passes(*a_, *b_));
  EXPECT_FALSE(log_.has("small packets"));
}

}  // namespace
}  // namespace causeway::inter
