// Who counts how much, and whom a round could wait for, after the newest record.
#include <gtest/gtest.h>

#include "diloco/round/standings.h"

namespace causeway::diloco {
namespace {

Member standing_member(const std::string& region, const std::string& incarnation) {
  Member one;
  one.region = region;
  one.incarnation = incarnation;
  return one;
}

CommitRecord record_with_standings() {
  CommitRecord record;
  record.standings = {{.region = "a", .liveness = 0.75F, .next_k = 4},
                      {.region = "b", .liveness = 0, .next_k = 4}};
  return record;
}

TEST(Standings, AreEqualBeforeTheFirstRecord) {
  const Standings standings;
  EXPECT_EQ(standings.liveness("a"), 1);
  EXPECT_FALSE(standings.is_new("a"));
}

TEST(Standings, AreThoseOfTheNewestRecord) {
  Standings standings;
  standings.start_from(record_with_standings());
  EXPECT_EQ(standings.liveness("a"), 0.75);
  EXPECT_EQ(standings.liveness("b"), 0);
  EXPECT_FALSE(standings.is_new("b"));
  EXPECT_EQ(standings.liveness("c"), 0);
  EXPECT_TRUE(standings.is_new("c"));
}

TEST(Standings, CountsWhoHasADiskOrWasListedLately) {
  Membership membership;
  membership.members = {standing_member("a", ""), standing_member("b", ""),
                        standing_member("c", "c's disk"), standing_member("w", "w's disk")};
  membership.members.back().witness = true;
  Standings standings;
  EXPECT_EQ(standings.living(membership), 3U) << "at the start all regions are waited for";
  standings.start_from(record_with_standings());
  EXPECT_EQ(standings.living(membership), 2U) << "a was listed lately, c has a disk";
}

}  // namespace
}  // namespace causeway::diloco
