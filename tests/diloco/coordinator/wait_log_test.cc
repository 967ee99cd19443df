#include <gtest/gtest.h>

#include "diloco/coordinator/wait_log.h"

namespace causeway::diloco {
namespace {

TEST(Mentions, TakesNamesAsWords) {
  EXPECT_TRUE(mentions("the contribution of eu", "eu"));
  EXPECT_TRUE(mentions("eu (2 of 3 MB)", "eu"));
  EXPECT_FALSE(mentions("the contribution of eu-west", "eu"));
  EXPECT_FALSE(mentions("neutral", "eu"));
  EXPECT_TRUE(mentions("eu-west and eu", "eu"));
}

TEST(WaitLog, NamesWhoWasWaitedForLongestInThisRound) {
  Membership members;
  for (const char* name : {"eu", "eu-west", "us"}) members = with(members, {.region = name});
  WaitLog log;
  EXPECT_EQ(log.longest(0), "");
  log.note("us", "the contribution of eu", 0, members);
  log.note("us", "the contribution of eu-west (1 of 9 MB)", 0, members);
  log.note("us", "the contribution of eu-west (2 of 9 MB)", 0, members);
  log.note("us", "", 0, members);
  EXPECT_EQ(log.longest(0), "eu-west");
  EXPECT_EQ(log.longest(1), "");
  log.note("us", "us itself", 1, members);
  EXPECT_EQ(log.longest(1), "");
}

}  // namespace

}  // namespace causeway::diloco
