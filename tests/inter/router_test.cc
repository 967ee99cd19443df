#include "inter/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

constexpr double kMega = 1e6;
constexpr std::uint64_t kBytes = 1'000'000;

// "a" reaches "b" badly and "c" well, and "c" reaches "b" well.
class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    router_.on_measured("b", milliseconds(100), 0.1 * kMega);
    router_.on_measured("c", milliseconds(100), 10 * kMega);
    router_.on_report("c", {{{"b", 50'000, 10'000'000}}});
  }
  Router router_{"a", Routing::automatic};
};

TEST_F(RouterTest, PoorLinkIsAvoided) {
  EXPECT_EQ(router_.via("b", kBytes, true), "c");
  EXPECT_EQ(router_.via("c", kBytes, true), "");
}

TEST_F(RouterTest, LinkThatWasNeverMeasuredIsUsed) {
  EXPECT_EQ(router_.via("d", kBytes, true), "");
}

TEST_F(RouterTest, RegionThatIsDownForUsAloneIsReachedThroughOneThatReachesIt) {
  router_.on_peer_down("b");
  EXPECT_EQ(router_.via("b", kBytes, false), "") << "nobody is known to reach it";
  router_.on_report("c", {{{"b", 50'000, 10'000'000}}});
  EXPECT_EQ(router_.via("b", kBytes, false), "c");
}

TEST_F(RouterTest, NothingGoesThroughARegionThatIsDown) {
  router_.on_peer_down("c");
  EXPECT_EQ(router_.via("b", kBytes, true), "");
}

TEST_F(RouterTest, PoorLinkIsTriedAgainNowAndThen) {
  int direct = 0;
  for (int i = 0; i < 80; ++i) {
    direct += router_.via("b", kBytes, true).empty() ? 1 : 0;
  }
  EXPECT_EQ(direct, 10);
}

TEST_F(RouterTest, DirectCanBeForced) {
  Router direct("a", Routing::direct);
  direct.on_measured("b", milliseconds(100), 0.1 * kMega);
  direct.on_measured("c", milliseconds(100), 10 * kMega);
  direct.on_report("c", {{{"b", 50'000, 10'000'000}}});
  EXPECT_EQ(direct.via("b", kBytes, true), "");
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
