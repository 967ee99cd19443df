#include "inter/route/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/captured_log.h"

namespace causeway::inter {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

constexpr double kMega = 1e6;
constexpr std::uint64_t kBytes = 1'000'000;

using Names = std::set<std::string>;

// "a" reaches "b" badly and "c" well, and "c" reaches "b" well.
class RouterTest : public testing::Test {
 protected:
  RouterTest() { measure(router_); }
  static void measure(Router& router) {
    router.on_measured("b", milliseconds(100), 0.1 * kMega);
    router.on_measured("c", milliseconds(100), 10 * kMega);
    router.on_report("c", {{{"b", 50'000, 10'000'000}}});
  }
  // Of the next blob; every eighth goes directly.
  std::vector<Hop> way(Router& router, const std::string& to, const Names& up = {"b", "c"}) {
    return router.way(next_blob(), to, up);
  }
  BlobId next_blob() {
    BlobId id{{}, kBytes};
    id.hash[0] = static_cast<std::uint8_t>(++blobs_);
    return id;
  }
  Router router_{"a", std::nullopt};
  int blobs_ = 0;
};

const std::vector<Hop> kThroughC{{"a", "c"}, {"c", "b"}};
const std::vector<Hop> kDirectly{{"a", "b"}};

TEST_F(RouterTest, PoorLinkIsAvoided) {
  EXPECT_EQ(way(router_, "b"), kThroughC);
  EXPECT_THAT(way(router_, "c"), ElementsAre(Hop{"a", "c"}));
}

TEST_F(RouterTest, LinkThatWasNeverMeasuredIsUsed) {
  EXPECT_THAT(way(router_, "d", {"b", "c", "d"}), ElementsAre(Hop{"a", "d"}));
}

TEST_F(RouterTest, RegionThatIsDownForUsAloneIsReachedThroughOneThatReachesIt) {
  router_.on_peer_down("b");
  EXPECT_EQ(way(router_, "b", {"c"}), kDirectly) << "nobody is known to reach it";
  router_.on_report("c", {{{"b", 50'000, 10'000'000}}});
  EXPECT_EQ(way(router_, "b", {"c"}), kThroughC);
}

TEST_F(RouterTest, NothingGoesThroughARegionThatIsDown) {
  EXPECT_EQ(way(router_, "b", {"b"}), kDirectly);
  router_.on_peer_down("c");
  EXPECT_EQ(way(router_, "b", {"b", "c"}), kDirectly);
}

TEST_F(RouterTest, PoorLinkIsTriedAgainNowAndThenByAWholeBlob) {
  int direct = 0;
  for (int i = 0; i < 80; ++i) {
    const BlobId id = next_blob();
    const bool directly = router_.way(id, "b", {"b", "c"}) == kDirectly;
    EXPECT_EQ(directly, router_.way(id, "b", {"b", "c"}) == kDirectly);
    direct += directly ? 1 : 0;
  }
  EXPECT_EQ(direct, 2) << "it takes 33 times as long: every 32nd";
}

TEST_F(RouterTest, ALinkThatIsALittlePoorerIsTriedMoreOften) {
  router_.on_measured("b", milliseconds(100), kMega);
  int direct = 0;
  for (int i = 0; i < 80; ++i) direct += way(router_, "b") == kDirectly ? 1 : 0;
  EXPECT_EQ(direct, 10);
}

TEST_F(RouterTest, WhatLinksCarryAtLeastIsEnoughToGoRoundAPoorOne) {
  Router router("a", std::nullopt);
  router.on_measured("b", milliseconds(100), 0, 0.1 * kMega);
  router.on_measured("c", milliseconds(100), 0, 10 * kMega);
  router.on_report("c", {{{"b", 50'000, 10'000'000}}});
  EXPECT_EQ(way(router, "b"), kDirectly) << "perhaps it carries far more";
  router.on_measured("b", milliseconds(100), 0.1 * kMega, 0.1 * kMega);
  EXPECT_EQ(way(router, "b"), kThroughC);
  EXPECT_EQ(router.report().links.size(), 2U) << "others may go over them, too";
}

TEST_F(RouterTest, DirectCanBeForced) {
  Router direct("a", Shape::direct);
  measure(direct);
  EXPECT_EQ(way(direct, "b"), kDirectly);
}

TEST_F(RouterTest, RelayCanBeForced) {
  Router relay("a", Shape::relay);
  relay.on_measured("b", milliseconds(100), 4.5 * kMega);
  relay.on_measured("c", milliseconds(100), 10 * kMega);
  relay.on_report("c", {{{"b", 0, 10'000'000}}});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(way(relay, "b"), kThroughC) << "never directly for a try";
  }
  Router careful("a", std::nullopt);
  careful.on_measured("b", milliseconds(100), 4.5 * kMega);
  careful.on_measured("c", milliseconds(100), 10 * kMega);
  careful.on_report("c", {{{"b", 0, 10'000'000}}});
  EXPECT_EQ(way(careful, "b"), kDirectly) << "a little better is not worth it";
}

// 50 ms, and 1 MB at 10 MB/s.
TEST_F(RouterTest, EveryPeersWayIsLoggedOnceWithItsPredictedTime) {
  const test::CapturedLog log;
  for (int i = 0; i < 20; ++i) {
    way(router_, "b");
    way(router_, "c");
  }
  EXPECT_EQ(log.count("a: blobs to c go a > c: predicted 0.150 s for 1000000 bytes"), 1U);
  EXPECT_EQ(log.count("a: blobs to b go a > c > b: predicted 0.300 s for 1000000 bytes"), 1U);
  EXPECT_EQ(log.count("predicted"), 2U) << log.text();
}

TEST_F(RouterTest, AForcedDirectWayIsLoggedToo) {
  const test::CapturedLog log;
  Router direct("a", Shape::direct);
  way(direct, "c");
  EXPECT_EQ(log.count("predicted"), 0U) << "nothing was measured yet: " << log.text();
  measure(direct);
  way(direct, "c");
  way(direct, "c");
  EXPECT_EQ(log.count("a: blobs to c go a > c as configured: predicted 0.150 s for 1000000 bytes"),
            1U);
  EXPECT_EQ(log.count("predicted"), 1U) << log.text();
}

TEST_F(RouterTest, RingCanBeForcedAndTakesTheWidestOrder) {
  Router ring("a", Shape::ring);
  EXPECT_EQ(way(ring, "c", {"b", "c"}).size(), 2U) << "even if nothing is measured";
  measure(ring);
  EXPECT_EQ(way(ring, "b"), kThroughC);
  EXPECT_THAT(way(ring, "c"), ElementsAre(Hop{"a", "c"}));
  EXPECT_THAT(way(ring, "b", {"b"}), ElementsAre(Hop{"a", "b"})) << "two are no ring";
}

// Wide links a > b > c > d > a, the others are hopeless.
TEST_F(RouterTest, RingIsChosenWhenEveryLinkIsMeasuredAndItIsMuchFaster) {
  Router router("a", std::nullopt);
  const Names up{"b", "c", "d"};
  const auto rate = [](const std::string& from, const std::string& to) -> std::uint64_t {
    const std::string order = "abcda";
    return order.find(from + to) != std::string::npos ? 100'000'000 : 10'000;
  };
  for (const char* to : {"b", "c", "d"}) {
    router.on_measured(to, milliseconds(20), static_cast<double>(rate("a", to)));
  }
  const auto report = [&](const std::string& from) {
    LinkReport all;
    for (const char* to : {"a", "b", "c", "d"}) {
      if (to != from) {
        all.links.push_back({to, 10'000, rate(from, to)});
      }
    }
    router.on_report(from, all);
  };
  report("b");
  report("c");
  EXPECT_THAT(way(router, "b", up), ElementsAre(Hop{"a", "b"}));
  report("d");
  router.on_measured("c", milliseconds(20), 0, 10'000);
  EXPECT_THAT(way(router, "b", up), ElementsAre(Hop{"a", "b"})) << "it may be wider than that";
  router.on_measured("c", milliseconds(20), 10'000);
  EXPECT_THAT(way(router, "d", up), ElementsAre(Hop{"a", "b"}, Hop{"b", "c"}, Hop{"c", "d"}));
  EXPECT_THAT(way(router, "b", up), ElementsAre(Hop{"a", "b"}));
  router.on_peer_down("c");
  EXPECT_THAT(way(router, "d", up), ElementsAre(Hop{"a", "d"})) << "c's links are not known again";
}

TEST_F(RouterTest, RegionIsAskedOnceToPassABlobOnUnlessItWasDown) {
  const BlobId id = next_blob();
  const Hop hop{"c", "b"};
  EXPECT_TRUE(router_.ask(id, hop));
  EXPECT_FALSE(router_.ask(id, hop));
  EXPECT_TRUE(router_.ask(next_blob(), hop));
  router_.on_peer_down("c");
  EXPECT_TRUE(router_.ask(id, hop));
}

TEST_F(RouterTest, ReportsItsOwnLinksAlone) {
  const LinkReport report = router_.report();
  ASSERT_EQ(report.links.size(), 2U);
  EXPECT_EQ(report.links[0].to, "b");
  EXPECT_EQ(report.links[0].latency_us, 50'000U);
  EXPECT_EQ(report.links[0].bytes_per_s, 100'000U);
}

TEST_F(RouterTest, RemembersWhatIsToBePassedOnOnce) {
  const BlobId id{{}, 1};
  router_.pass_later(id, "b");
  router_.pass_later(id, "d");
  router_.pass_later(id, "b");
  EXPECT_THAT(router_.take_passes(id), ElementsAre("b", "d"));
  EXPECT_THAT(router_.take_passes(id), ElementsAre());
}

}  // namespace
}  // namespace causeway::inter
