#include "diloco/region/run_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What a file has of one may be of before.
TEST(RunHistory, KnowsWhichRegionsHadAnotherAddress) {
  const ProtocolOptions options;
  const RaftLog log({}, 1, nullptr);
  RunHistory history(options, log);
  const Membership founded{
      .members = {{.region = "a", .address = "a:1"}, {.region = "b", .address = "b:1"}}};
  history.add_members(founded);
  history.add_members(with(founded, {.region = "b", .address = "b:1", .incarnation = "disk"}));
  history.add_members(with(founded, {.region = "c", .address = "c:1"}));
  EXPECT_THAT(history.moved(), IsEmpty()) << "a vote, and a region that came";
  history.add_members(founded);
  history.add_members(with(founded, {.region = "c", .address = "c:2"}));
  EXPECT_THAT(history.moved(), ElementsAre("c")) << "also while it was no member";
  history.add_members(with(founded, {.region = "b"}));
  history.add_members(founded);
  EXPECT_THAT(history.moved(), ElementsAre("b", "c")) << "also if it came back";
}

}  // namespace
}  // namespace causeway::diloco
