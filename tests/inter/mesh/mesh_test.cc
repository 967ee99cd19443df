#include "inter/mesh/mesh.h"

#include <regex>

#include "inter/base/error.h"
#include "tests/inter/mesh/mesh_fixture.h"

namespace causeway::inter {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::size_t kBlobBytes = 10'000'000;
constexpr std::size_t kLargeBlobBytes = 64'000'000;

// "b" listens, "a" dials; both are up when a test begins.
class PairTest : public MeshTest {
 protected:
  PairTest() {
    start_pair();
    EXPECT_TRUE(run_until([&] { return both_up(); }));
  }
  bool both_up() const { return a().mesh->is_up("b") && b().mesh->is_up("a"); }
  Region& b() const { return *regions_[0]; }
  Region& a() const { return *regions_[1]; }
};

TEST_F(PairTest, ComesUpOnceOnBothSides) {
  EXPECT_EQ(a().ups, 1);
  EXPECT_EQ(b().ups, 1);
  EXPECT_THAT(a().greetings, ElementsAre("b:greeting of b"));
  EXPECT_THAT(b().greetings, ElementsAre("a:greeting of a"));
}

TEST_F(PairTest, MessagesArriveInOrderAndWhole) {
  const std::string large(4U << 20, 'x');
  a().mesh->send("b", "one");
  a().mesh->send("b", large);
  a().mesh->send("b", "");
  b().mesh->send("a", "two");
  ASSERT_TRUE(run_until([&] { return b().messages.size() == 3 && a().messages.size() == 1; }));
  EXPECT_EQ(b().messages[0], "a:one");
  EXPECT_TRUE(b().messages[1] == "a:" + large);
  EXPECT_EQ(b().messages[2], "a:");
  EXPECT_EQ(a().messages[0], "b:two");
}

TEST_F(PairTest, MessageBeyondTheLimitIsTheSendersError) {
  EXPECT_THROW(a().mesh->send("b", std::string((4U << 20) + 1, 'x')), std::system_error);
}

TEST_F(PairTest, PushedBlobArrivesByteExact) {
  const auto bytes = make_bytes(kBlobBytes);
  const BlobId id = a().spool.put(bytes);
  a().mesh->push_blob("b", id);
  ASSERT_TRUE(run_until([&] { return !b().blobs.empty(); }));
  EXPECT_EQ(b().blobs[0].first, "a");
  EXPECT_EQ(b().blobs[0].second, id);
  EXPECT_TRUE(b().spool.read(id, 0, kBlobBytes) == bytes);
}

TEST_F(PairTest, BlobsFlowBothWaysAtOnce) {
  const BlobId from_a = a().spool.put(make_bytes(kBlobBytes, 1));
  const BlobId from_b = b().spool.put(make_bytes(kBlobBytes, 2));
  a().mesh->push_blob("b", from_a);
  b().mesh->push_blob("a", from_b);
  EXPECT_TRUE(run_until([&] { return b().spool.has(from_a) && a().spool.has(from_b); }));
}

TEST_F(PairTest, FetchedBlobArrivesAndAnAbsentOneIsIgnored) {
  const BlobId id = b().spool.put(make_bytes(1000));
  a().mesh->fetch_blob("b", BlobId{{}, 10});
  a().mesh->fetch_blob("b", id);
  ASSERT_TRUE(run_until([&] { return !a().blobs.empty(); }));
  EXPECT_EQ(a().blobs[0].second, id);
}

TEST_F(PairTest, BytesAreCountedAlikeAtBothEndsAndExceedTheContent) {
  const BlobId id = a().spool.put(make_bytes(1'000'000));
  a().mesh->push_blob("b", id);
  // Heartbeats go on, so the ends agree only in the moments between them.
  ASSERT_TRUE(run_until([&] {
    const LinkStats at_a = a().mesh->stats().at("b");
    const LinkStats at_b = b().mesh->stats().at("a");
    return b().spool.has(id) && at_a.tx_bytes == at_b.rx_bytes && at_a.rx_bytes == at_b.tx_bytes;
  }));
  const LinkStats stats = a().mesh->stats().at("b");
  EXPECT_TRUE(stats.up);
  EXPECT_EQ(stats.connects, 1U);
  EXPECT_GT(stats.tx_bytes, 1'000'000U);
  EXPECT_LT(stats.tx_bytes, 1'050'000U);
  EXPECT_GT(stats.rx_bytes, 1'000U) << "two handshakes alone are more";
}

TEST_F(PairTest, HeartbeatsMeasureTheRoundTrip) {
  EXPECT_TRUE(run_until([&] {
    return a().mesh->stats().at("b").round_trip.count() > 0 &&
           b().mesh->stats().at("a").round_trip.count() > 0;
  }));
}

TEST_F(PairTest, BlobBeyondTheSpoolIsDeclinedAndTheLinkStays) {
  const std::uint64_t too_large = (1U << 30) / 1000;
  MeshOptions c_options = options("c");
  point(c_options, "a", 1);
  Region& c = add(c_options, too_large);
  c.mesh->start();
  // A third region is easier to make small than the two that exist.
  stop(*a().mesh);
  MeshOptions again = options("a");
  point(again, "c", c.mesh->listening_port());
  a().restart(context_, again);
  a().mesh->start();
  ASSERT_TRUE(run_until([&] { return c.mesh->is_up("a"); }));
  a().mesh->push_blob("c", a().spool.put(make_bytes(too_large + 1)));
  const BlobId small = a().spool.put(make_bytes(1000));
  a().mesh->push_blob("c", small);
  ASSERT_TRUE(run_until([&] { return c.spool.has(small); }));
  EXPECT_TRUE(c.mesh->is_up("a"));
  EXPECT_TRUE(c.downs.empty());
  EXPECT_TRUE(log_.has("does not fit"));
}

TEST_F(PairTest, PeerThatStopsIsDownAndItsReturnIsNoticed) {
  const std::uint16_t port = b().mesh->listening_port();
  stop(*b().mesh);
  ASSERT_TRUE(run_until([&] { return !a().mesh->is_up("b"); }));
  EXPECT_EQ(a().downs.size(), 1U);
  EXPECT_TRUE(b().downs.empty()) << "a stopped mesh calls nobody";
  a().mesh->send("b", "lost");
  ASSERT_TRUE(run_until([&] { return log_.count("no link to b") >= 3; }));

  MeshOptions again = options("b");
  point(again, "a", 1);
  again.bind.port = port;
  b().restart(context_, again);
  b().mesh->start();
  ASSERT_TRUE(run_until([&] { return both_up(); }));
  EXPECT_EQ(a().ups, 2);
  EXPECT_EQ(a().mesh->stats().at("b").connects, 2U);
  a().mesh->send("b", "kept");
  ASSERT_TRUE(run_until([&] { return !b().messages.empty(); }));
  EXPECT_THAT(b().messages, ElementsAre("a:kept"));
}

TEST_F(PairTest, BlobPushedWhileThePeerIsDownArrivesLater) {
  const std::uint16_t port = b().mesh->listening_port();
  stop(*b().mesh);
  ASSERT_TRUE(run_until([&] { return !a().mesh->is_up("b"); }));
  const BlobId id = a().spool.put(make_bytes(1000));
  a().mesh->push_blob("b", id);
  MeshOptions again = options("b");
  point(again, "a", 1);
  again.bind.port = port;
  b().restart(context_, again);
  b().mesh->start();
  EXPECT_TRUE(run_until([&] { return b().spool.has(id); }));
}

TEST_F(PairTest, RepeatedFailuresAreLoggedEverMoreRarely) {
  stop(*b().mesh);
  ASSERT_TRUE(run_until([&] { return log_.has("(seen 8 times)"); }));
  // A dial that b's end cuts short fails in another way than those after it; each way has its
  // count.
  const std::string text = log_.text();
  std::smatch failure;
  ASSERT_TRUE(
      std::regex_search(text, failure, std::regex(R"((no link to b[^\n]*) \(seen 8 times\))")));
  EXPECT_EQ(log_.count(failure[1]), 4U) << "the 1st, 2nd, 4th and 8th in\n" << text;
}

TEST_F(PairTest, NewConnectionOfAPeerReplacesTheOldOne) {
  MeshOptions twin_options = options("a");
  point(twin_options, "b", b().mesh->listening_port());
  Region& twin = add(twin_options);
  twin.mesh->start();
  ASSERT_TRUE(run_until([&] { return b().ups >= 2; }));
  ASSERT_GE(b().downs.size(), 1U);
  EXPECT_EQ(b().downs[0], "a:the region connected anew");
  stop(*a().mesh);
  ASSERT_TRUE(run_until([&] { return twin.mesh->is_up("b") && b().mesh->is_up("a"); }));
  b().mesh->send("a", "to the living");
  EXPECT_TRUE(run_until([&] { return !twin.messages.empty(); }));
}

// A doctor, say, which has the region's certificate and is not to take part.
TEST_F(PairTest, WhoIsRefusedEndsNoLink) {
  b().verdict = "it is only being checked";
  MeshOptions twin_options = options("a");
  point(twin_options, "b", b().mesh->listening_port());
  Region& twin = add(twin_options);
  twin.mesh->start();
  ASSERT_TRUE(run_until([&] { return twin.refusals.size() >= 3; }));
  EXPECT_TRUE(b().downs.empty());
  EXPECT_TRUE(a().mesh->is_up("b"));
  EXPECT_FALSE(log_.has("two processes use the certificate"));
}

TEST_F(PairTest, DestroyedWithoutStopLeavesTheOtherSideRunning) {
  a().mesh.reset();
  ASSERT_TRUE(run_until([&] { return !b().mesh->is_up("a"); }));
  EXPECT_TRUE(a().downs.empty());
}

TEST_F(MeshTest, ThreeRegionsFormAFullMesh) {
  std::map<std::string, std::uint16_t> ports;
  for (const std::string name : {"c", "b", "a"}) {
    MeshOptions mine = options(name);
    for (const std::string other : {"a", "b", "c"}) {
      point(mine, other, ports.contains(other) ? ports[other] : 1);
    }
    Region& region = add(mine);
    region.mesh->start();
    ports[name] = region.mesh->listening_port();
  }
  const auto all_up = [&] {
    return std::all_of(regions_.begin(), regions_.end(), [](const auto& r) { return r->ups == 2; });
  };
  ASSERT_TRUE(run_until(all_up));
  Region& c = *regions_[0];
  Region& b = *regions_[1];
  Region& a = *regions_[2];
  a.mesh->send("c", "from a");
  b.mesh->send("c", "from b");
  c.mesh->send("a", "from c");
  ASSERT_TRUE(run_until([&] { return c.messages.size() == 2 && a.messages.size() == 1; }));

  // Both hold the blob and push it; it arrives once.
  const auto bytes = make_bytes(3'000'000);
  const BlobId id = a.spool.put(bytes);
  b.spool.put(bytes);
  a.mesh->push_blob("c", id);
  b.mesh->push_blob("c", id);
  const BlobId later = b.spool.put(make_bytes(10));
  b.mesh->push_blob("c", later);
  const BlobId also = a.spool.put(make_bytes(11));
  a.mesh->push_blob("c", also);
  ASSERT_TRUE(
      run_until([&] { return c.spool.has(later) && c.spool.has(also) && c.spool.has(id); }));
  ASSERT_TRUE(run_until([&] { return c.blobs.size() == 3; }));
  EXPECT_TRUE(c.spool.read(id, 0, bytes.size()) == bytes);
  EXPECT_TRUE(c.downs.empty());
}

// "a" reaches "c" alone; what it pushes to "b" goes through "c".
// Forced, and nothing measured: in the order of the names.
TEST_F(MeshTest, RingCarriesEveryPayloadFromNeighbourToNeighbour) {
  constexpr std::uint64_t kBytes = 3'000'000;
  std::map<std::string, std::uint16_t> ports;
  std::map<std::string, BlobId> ids;
  for (const std::string name : {"c", "b", "a"}) {
    MeshOptions mine = options(name);
    mine.topology = Shape::ring;
    for (const std::string other : {"a", "b", "c"}) {
      point(mine, other, ports.contains(other) ? ports[other] : 1);
    }
    Region& region = add(mine);
    region.mesh->start();
    ports[name] = region.mesh->listening_port();
    ids[name] = region.spool.put(make_bytes(kBytes, ports[name]));
  }
  ASSERT_TRUE(run_until([&] {
    return std::all_of(regions_.begin(), regions_.end(), [](const auto& r) { return r->ups == 2; });
  }));
  const std::vector<std::string> names{"c", "b", "a"};  // as in regions_
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const std::string& to : names) {
      if (to != names[i]) {
        regions_[i]->mesh->push_blob(to, ids[names[i]]);
      }
    }
  }
  ASSERT_TRUE(run_until([&] {
    return std::all_of(regions_.begin(), regions_.end(),
                       [](const auto& region) { return region->blobs.size() == 2; });
  }));
  const std::map<std::string, std::string> before{{"a", "c"}, {"b", "a"}, {"c", "b"}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (const auto& [from, id] : regions_[i]->blobs) {
      EXPECT_EQ(from, before.at(names[i]));
    }
    EXPECT_LT(regions_[i]->mesh->stats().at(before.at(names[i])).tx_bytes, kBytes / 4)
        << "nothing of a payload goes backwards";
  }
  EXPECT_TRUE(log_.has("a: blobs go round the ring a > b > c: predicted")) << log_.text();
}

TEST_F(MeshTest, BlobForARegionThatIsOutOfReachGoesThroughAnother) {
  const Endpoint nowhere{"127.0.0.1", 1};
  Region& b = add("b");
  Region& c = add("c");
  Region& a = add("a");
  for (Region* const region : {&b, &c, &a}) {
    region->mesh->start();
  }
  const Endpoint at_c{"127.0.0.1", c.mesh->listening_port()};
  c.mesh->set_peers({{"a", nowhere}, {"b", nowhere}});
  b.mesh->set_peers({{"a", nowhere}, {"c", at_c}});
  a.mesh->set_peers({{"b", nowhere}, {"c", at_c}});
  ASSERT_TRUE(run_until([&] { return a.mesh->is_up("c") && c.mesh->is_up("b"); }));
  // So that both hops are measured, and reported.
  a.mesh->push_blob("c", a.spool.put(make_bytes(3'000'000, 1)));
  c.mesh->push_blob("b", c.spool.put(make_bytes(3'000'000, 2)));
  const auto bytes = make_bytes(3'000'000, 3);
  const BlobId id = a.spool.put(bytes);
  ASSERT_TRUE(run_until([&] {
    a.mesh->push_blob("b", id);
    return b.spool.has(id);
  }));
  EXPECT_TRUE(b.spool.read(id, 0, bytes.size()) == bytes);
  // On a slow machine messages have found their way, too, by now.
  EXPECT_TRUE(!a.ways.contains("b") || a.ways.at("b") == "c");
  EXPECT_TRUE(log_.has("a: blobs to b go a > c > b: predicted"));
}

}  // namespace
}  // namespace causeway::inter
