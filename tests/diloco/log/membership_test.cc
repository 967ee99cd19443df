#include "diloco/log/membership.h"

#include <string>

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

// So many contributions a round waits for, unless it is configured otherwise.
TEST(Membership, OfTwoRegionsWithAWitnessOneIsMostMembersTogetherWithIt) {
  Membership members;
  const auto wanted = [&members](const std::string& region, bool witness) {
    members = with(members, {.region = region, .witness = witness, .incarnation = "1"});
    return members.most_of(members.region_count());
  };
  EXPECT_EQ(wanted("a", false), 1U);
  EXPECT_EQ(wanted("b", false), 2U);
  members = with(members, {.region = "v", .witness = true, .incarnation = ""});
  EXPECT_EQ(members.most_of(2), 2U) << "it never came";
  EXPECT_EQ(wanted("v", true), 1U);
  EXPECT_EQ(wanted("c", false), 2U);
  EXPECT_EQ(wanted("d", false), 2U);
  EXPECT_EQ(wanted("w", true), 2U);
  members = without(without(members, "c"), "d");
  EXPECT_EQ(wanted("x", true), 1U) << "never none";
}

}  // namespace
}  // namespace causeway::diloco
