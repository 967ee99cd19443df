// Links over wan-sim's relay, in real time: seconds, not milliseconds.
#include <algorithm>
#include <vector>

#include "tests/inter/mesh/mesh_fixture.h"
#include "wan-sim/relay/relay.h"

namespace causeway::inter {
namespace {

using std::chrono::milliseconds;

// "a" dials "b" over a WAN.
class WanTest : public MeshTest {
 protected:
  void start(const std::string& link) {
    relay_.emplace(
        context_.get_executor(),
        wan_sim::parse_scenario("regions = ['a', 'b']\n[defaults]\n" + link, "wan.toml"));
    MeshOptions listener = wide(options("b"));
    point(listener, "a", 1);
    Region& b = add(listener, 1ULL << 32);
    b.mesh->start();
    const auto address = relay_->open("a", "b", [port = b.mesh->listening_port()] {
      return asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), port);
    });
    MeshOptions dialler = wide(options("a"));
    point(dialler, "b", address.port());
    add(dialler, 1ULL << 32).mesh->start();
    ASSERT_TRUE(run_until([&] { return a().mesh->is_up("b") && this->b().mesh->is_up("a"); }));
  }
  ~WanTest() override {
    for (const auto& region : regions_) {
      stop(*region->mesh);
      region->mesh.reset();
    }
    if (relay_) {
      relay_->stop();
    }
  }
  // As in a run.
  static MeshOptions wide(MeshOptions options) {
    options.heartbeat_interval = milliseconds(500);
    options.idle_deadline = milliseconds(3000);
    return options;
  }
  Region& b() const { return *regions_[0]; }
  Region& a() const { return *regions_[1]; }

  std::optional<wan_sim::Relay> relay_;
};

class T7 : public WanTest {};

TEST_F(T7, BulkDelaysNoHeartbeat) {
  start("rate_mbit_s = 10\nrtt_ms = 50\ncongestion = 'cubic'\nqueue_kib = 256\n");
  a().mesh->push_blob("b", a().spool.put(std::vector<std::byte>(200'000'000)));
  ASSERT_TRUE(run_until([&] { return b().spool.stored_bytes() > 2'000'000; }));
  // Echoes of our own, one after another, as heartbeats are sent. A busy machine delays some of
  // them, and what waits behind bulk delays all.
  std::vector<milliseconds> took;
  for (int i = 0; i < 20; ++i) {
    const auto sent = std::chrono::steady_clock::now();
    a().mesh->send("b", "are you there?");
    ASSERT_TRUE(run_until([&] { return b().messages.size() == static_cast<std::size_t>(i) + 1; }));
    took.push_back(
        std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - sent));
  }
  std::ranges::nth_element(took, took.begin() + 10);
  EXPECT_LT(took[10], milliseconds(500)) << "a heartbeat would be late";
  // The heartbeats' mean forgets how long this thread was at work on the blob before.
  EXPECT_TRUE(run_until([&] { return a().mesh->stats().at("b").round_trip < milliseconds(500); }));
  EXPECT_TRUE(a().downs.empty() && b().downs.empty());
}

class T1 : public WanTest {};

// To one in a hundred of its rate, for longer than the idle deadline: slow is not dead.
TEST_F(T1, TransferOverACollapsedLinkGoesOnWithoutADrop) {
  start("rate_mbit_s = 100\nrtt_ms = 20\ncongestion = 'cubic'\nqueue_kib = 64\n");
  const BlobId id = a().spool.put(make_bytes(8'000'000));
  a().mesh->push_blob("b", id);
  ASSERT_TRUE(run_until([&] { return b().spool.stored_bytes() > 2'000'000; }));
  relay_->command("for_s = 6, pair = ['a', 'b'], rate_mbit_s = 1");
  ASSERT_TRUE(run_until([&] { return b().spool.has(id); }));
  EXPECT_TRUE(a().downs.empty() && b().downs.empty());
}

// A link that is cut fails within the deadline, and says so.
TEST_F(T1, TransferOverACutLinkFailsInTimeAndEndsAfterwards) {
  start("rate_mbit_s = 100\nrtt_ms = 20\ncongestion = 'cubic'\n");
  const BlobId id = a().spool.put(make_bytes(8'000'000));
  a().mesh->push_blob("b", id);
  ASSERT_TRUE(run_until([&] { return b().spool.stored_bytes() > 2'000'000; }));
  relay_->cut("a", "b");
  ASSERT_TRUE(run_until([&] { return !a().downs.empty() && !b().downs.empty(); }));
  relay_->heal("a", "b");
  EXPECT_TRUE(run_until([&] { return b().spool.has(id); }));
}

}  // namespace
}  // namespace causeway::inter
