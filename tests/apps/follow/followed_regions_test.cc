// In which order a follower asks the regions.
#include "apps/run/follow/followed_regions.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/io_context.hpp>

#include "tests/support/captured_log.h"
#include "tests/support/test_pki.h"

namespace causeway::run {
namespace {

using testing::ElementsAre;

// One that hangs costs half a minute each time it is asked.
TEST(FollowedRegionsTest, WhoWasDroppedIsAskedLast) {
  const test::TestPki pki({"reader"});
  const test::CapturedLog log;
  asio::io_context context;
  FollowedRegions regions(
      context.get_executor(), "reader", pki.credentials("reader"),
      {{"a", {"127.0.0.1", 1}}, {"b", {"127.0.0.1", 2}}, {"c", {"127.0.0.1", 3}}});
  const std::vector<std::string> trusted{"a", "c", "unknown"};
  EXPECT_THAT(regions.in_order(trusted), ElementsAre("a", "c"));
  regions.drop("a", "it says nothing");
  EXPECT_THAT(regions.in_order(trusted), ElementsAre("c", "a"));
}

}  // namespace
}  // namespace causeway::run
