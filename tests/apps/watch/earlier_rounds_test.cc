#include "apps/run/watch/earlier_rounds.h"

#include <gtest/gtest.h>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

TEST(EarlierRounds, LeaveOutEventsThatAreNoRounds) {
  const TemporaryDirectory directory;
  directory.write("events.jsonl",
                  R"({"event": "peer_up", "region": "east", "round": 0, "peer": "west"})"
                  "\n"
                  R"({"round": 0, "region": "east", "participants": ["east"], "step": 20})"
                  "\n{\"rou");
  EarlierRounds rounds(directory.path());
  const auto only = rounds.next();
  ASSERT_TRUE(only);
  EXPECT_EQ(only->step, 20U);
  EXPECT_FALSE(rounds.next());
}

}  // namespace
}  // namespace causeway::run
