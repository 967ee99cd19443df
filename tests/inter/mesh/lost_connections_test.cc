// Connections that drop or go silent in the middle of a transfer.
#include <functional>
#include <memory>

#include <asio/steady_timer.hpp>

#include "inter/mesh/mesh.h"
#include "tests/inter/mesh/mesh_fixture.h"

namespace causeway::inter {
namespace {

using testing::HasSubstr;

constexpr std::size_t kCutBlobBytes = 10'000'000;
constexpr std::size_t kLargeCutBlobBytes = 64'000'000;
constexpr std::size_t kPushedBytes = 300'000;

class ProxyTest : public MeshTest {
 protected:
  ProxyTest() {
    MeshOptions listener = options("b");
    point(listener, "a", 1);
    add(listener).mesh->start();
    proxy_ = std::make_shared<CutProxy>(context_, b().mesh->listening_port());
    proxy_->accept();
  }
  ~ProxyTest() override { proxy_->close(); }

  void start_dialler(MeshOptions dialler) {
    point(dialler, "b", proxy_->port());
    add(dialler).mesh->start();
    ASSERT_TRUE(run_until([&] { return a().mesh->is_up("b") && b().mesh->is_up("a"); }));
  }
  Region& b() const { return *regions_[0]; }
  Region& a() const { return *regions_[1]; }

  std::shared_ptr<CutProxy> proxy_;
};

// A drop at 95 % costs what was missing then, and no byte of the rest.
TEST_F(ProxyTest, PushRepeatsNothingThatWasAcknowledgedBeforeADrop) {
  MeshOptions dialler = options("a");
  dialler.data_connections = 4;  // few handshakes
  start_dialler(dialler);
  const auto bytes = make_bytes(kLargeCutBlobBytes);
  const BlobId id = a().spool.put(bytes);
  proxy_->cut_after(kLargeCutBlobBytes * 95 / 100);
  a().mesh->push_blob("b", id);
  ASSERT_TRUE(run_until([&] { return !b().downs.empty() && !a().downs.empty(); }));
  const std::uint64_t received = b().spool.received_bytes(id);
  EXPECT_GT(received, kLargeCutBlobBytes * 9 / 10);
  EXPECT_LT(received, kLargeCutBlobBytes);
  const std::uint64_t sent_before = b().mesh->stats().at("a").rx_bytes;

  ASSERT_TRUE(run_until([&] { return b().spool.has(id); }));
  EXPECT_TRUE(log_.has("resuming blob " + to_string(id) + " to b, which holds "));
  // Counted at the sockets, so with handshakes and TLS records: these are less than one chunk.
  const std::uint64_t again = b().mesh->stats().at("a").rx_bytes - sent_before;
  EXPECT_LT(again, kLargeCutBlobBytes - received + kChunkBytesMax);
  EXPECT_TRUE(b().spool.read(id, 0, kLargeCutBlobBytes) == bytes);
  ASSERT_TRUE(run_until([&] { return !b().blobs.empty(); }));
  EXPECT_EQ(b().blobs.size(), 1U);
}

TEST_F(ProxyTest, FetchGoesOnAfterADropAndAReceiversRestart) {
  start_dialler(options("a"));
  const auto bytes = make_bytes(kCutBlobBytes);
  const BlobId id = a().spool.put(bytes);
  proxy_->cut_after(kCutBlobBytes / 2);
  b().mesh->fetch_blob("a", id);
  ASSERT_TRUE(run_until([&] { return !b().downs.empty() && !a().downs.empty(); }));
  // A new life over the same directory has the chunks that were hashed.
  const std::uint64_t hashed = b().mesh->hashing().bytes;
  EXPECT_GT(hashed, 0U);
  EXPECT_EQ(Spool(b().directory.path() / "spool", 1U << 30).received_bytes(id), hashed);
  ASSERT_TRUE(run_until([&] { return b().spool.has(id); }));
  EXPECT_TRUE(b().spool.read(id, 0, kCutBlobBytes) == bytes);
}

TEST_F(ProxyTest, LostDataConnectionsAreReplacedWhileThePeerStaysUp) {
  start_dialler(options("a"));
  const auto bytes = make_bytes(kLargeCutBlobBytes);
  const BlobId id = a().spool.put(bytes);
  for (const std::uint64_t percent : {10, 30, 50, 70, 90}) {
    proxy_->cut_one_after(kLargeCutBlobBytes * percent / 100);
  }
  a().mesh->push_blob("b", id);
  ASSERT_TRUE(run_until([&] { return b().spool.has(id); }));
  EXPECT_TRUE(b().spool.read(id, 0, kLargeCutBlobBytes) == bytes);
  EXPECT_TRUE(a().downs.empty() && b().downs.empty());
  EXPECT_LT(b().mesh->stats().at("a").rx_bytes, kLargeCutBlobBytes * 3 / 2);
  const std::size_t wanted = a().mesh->stats().at("b").data_connections;
  EXPECT_TRUE(run_until([&] { return a().mesh->stats().at("b").data_connections >= 4; })) << wanted;
}

TEST_F(ProxyTest, SilenceBeyondTheIdleDeadlineDropsTheLinkAndSaysWhatWasUnderWay) {
  MeshOptions dialler = options("a");
  dialler.idle_deadline = std::chrono::milliseconds(300);
  start_dialler(dialler);
  a().mesh->push_blob("b", a().spool.put(make_bytes(kCutBlobBytes)));
  ASSERT_TRUE(run_until([&] { return b().spool.stored_bytes() > 0; }));
  proxy_->stall();
  ASSERT_TRUE(run_until([&] { return !a().downs.empty(); }));
  EXPECT_THAT(a().downs[0], HasSubstr("b:nothing arrived for "));
  EXPECT_THAT(a().downs[0], HasSubstr("sending blob "));
  EXPECT_THAT(a().downs[0], HasSubstr("% confirmed"));
}

// What follows goes the same way and keeps its bytes moving, so that it never stands still.
TEST_F(ProxyTest, AConnectionWhoseBytesAProxyKeepsIsReplaced) {
  MeshOptions dialler = options("a");
  dialler.data_connections = 1;
  dialler.idle_deadline = std::chrono::seconds(1);
  start_dialler(dialler);
  const BlobId before = a().spool.put(make_bytes(kCutBlobBytes));
  a().mesh->push_blob("b", before);
  ASSERT_TRUE(run_until([&] { return b().spool.has(before); }));
  proxy_->swallow();
  const BlobId kept = a().spool.put(make_bytes(kPushedBytes, 2));
  a().mesh->push_blob("b", kept);
  unsigned seed = 2;
  asio::steady_timer timer(context_);
  const auto body =
      std::make_shared<bool>();  // a handler whose time has come may be called after the test
  const std::function<void()> push_more = [&] {
    a().mesh->push_blob("b", a().spool.put(make_bytes(kPushedBytes, ++seed)));
    timer.expires_after(std::chrono::milliseconds(50));
    timer.async_wait([&push_more, alive = std::weak_ptr(body)](const std::error_code& ended) {
      if (!ended && !alive.expired()) push_more();
    });
  };
  push_more();
  EXPECT_TRUE(run_until([&] { return b().spool.has(kept); }));
}

// As on a slow path, where bulk takes the place of control packets.
TEST_F(ProxyTest, BytesOnDataConnectionsKeepTheLinkForAWhileWhenControlIsSilent) {
  MeshOptions dialler = options("a");
  dialler.data_connections = 4;
  dialler.idle_deadline = std::chrono::milliseconds(600);
  start_dialler(dialler);
  a().mesh->push_blob("b", a().spool.put(make_bytes(kLargeCutBlobBytes)));
  ASSERT_TRUE(run_until([&] { return b().spool.stored_bytes() > 0; }));
  proxy_->stall_first(std::chrono::milliseconds(5));
  ASSERT_TRUE(run_until([&] { return !a().downs.empty(); }));
  EXPECT_THAT(a().downs[0], HasSubstr("on the control connection, though bytes move on others; "));
  EXPECT_THAT(a().downs[0], HasSubstr("sending blob "));
  EXPECT_GT(b().spool.stored_bytes(), 1'000'000U) << "it was of use";
}

}  // namespace
}  // namespace causeway::inter
