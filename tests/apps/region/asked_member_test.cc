#include "apps/run/region/asked_member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/config/config.h"

namespace causeway::run {
namespace {

using ::testing::HasSubstr;

// Region "hidden" only dials out; "w" is a witness.
diloco::Membership run_of(const std::string& address_of_open) {
  diloco::Membership membership;
  membership.members = {{.region = "hidden"},
                        {.region = "open", .address = address_of_open},
                        {.region = "w", .address = "here:1", .witness = true}};
  return membership;
}

std::string refusal(const diloco::Membership& membership, const diloco::Member& asked) {
  try {
    asked_member(membership, asked);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(AskedMember, KeepsItsRoleWhereItsAddressChanges) {
  const diloco::Membership run = run_of("here:2");
  EXPECT_TRUE(asked_member(run, {.region = "w", .address = "there:1"}).witness);
  EXPECT_TRUE(asked_member(run, {.region = "w", .address = "there:1", .witness = true}).witness);
  EXPECT_FALSE(asked_member(run, {.region = "open", .address = "there:2"}).witness);
  EXPECT_EQ(asked_member(run, {.region = "w", .address = "there:1"}).address, "there:1");
}

TEST(AskedMember, ThatIsNewIsWhatItIsAskedToBe) {
  const diloco::Membership run = run_of("here:2");
  EXPECT_FALSE(asked_member(run, {.region = "new", .address = "there:1"}).witness);
  EXPECT_TRUE(asked_member(run, {.region = "new", .address = "there:1", .witness = true}).witness);
}

TEST(AskedMember, DoesNotBecomeAWitness) {
  EXPECT_THAT(refusal(run_of("here:2"), {.region = "open", .address = "here:2", .witness = true}),
              HasSubstr("`causeway members remove open`"));
}

TEST(AskedMember, IsWaitedForWithTheLeadersName) {
  const std::chrono::seconds patience{60};
  EXPECT_THAT(still_waits(R"({"leader": "open", "region": "new"})", patience),
              AllOf(HasSubstr("waits up to 60 s"), HasSubstr("open leads: ask there")));
  EXPECT_THAT(still_waits(R"({"leader": "open", "region": "open"})", patience),
              Not(HasSubstr("ask there")));
  EXPECT_THAT(still_waits("", patience), Not(HasSubstr("ask there")));
}

TEST(AskedMember, IsTakenByALeaderAlone) {
  const std::chrono::seconds patience{60};
  const std::string led = R"({"leader": "open", "waiting": "open to decide round 3"})";
  const std::string unled = R"({"leader": "", "waiting": "a leader, which cannot be elected"})";
  EXPECT_THAT(
      why_not_taken(led, patience),
      HasSubstr("in 60 s, but may still take it (`causeway members list` tells): most of its"));
  EXPECT_THAT(why_not_taken(led, patience), HasSubstr("Ask at the leader, which is open. "));
  const std::string leads = R"({"leader": "open", "region": "open"})";
  EXPECT_THAT(why_not_taken(leads, patience), HasSubstr("This region leads: "));
  EXPECT_THAT(why_not_taken("", patience), HasSubstr("most of its regions must be reachable"));
  EXPECT_THAT(why_not_taken("", patience), HasSubstr("Ask at the leader. "));
  EXPECT_THAT(why_not_taken(unled, patience),
              HasSubstr("it has no leader, and only a leader can take it. This region waits for a "
                        "leader, which cannot be elected."));
}

TEST(T8AskedMember, WithoutAnAddressNeedsAThirdRegionWhereAnotherHasNone) {
  EXPECT_EQ(refusal(run_of("here:2"), {.region = "new"}), "");
  EXPECT_THAT(refusal(run_of(""), {.region = "new"}),
              HasSubstr("it cannot be linked to hidden, open"))
      << "a witness carries no payloads";
  EXPECT_EQ(refusal(run_of(""), {.region = "new", .witness = true}), "");
  EXPECT_EQ(refusal(run_of(""), {.region = "new", .address = "there:1"}), "");
  EXPECT_EQ(refusal({}, {.region = "new"}), "");
}

TEST(T8AskedMember, WithoutAnAddressIsWarnedOfWhereAnotherHasNone) {
  EXPECT_THAT(
      dial_only_warning(run_of("here:2"), {.region = "new"}),
      HasSubstr(
          "nobody can dial new or hidden: their traffic goes by way of a third region (open)"));
  EXPECT_EQ(dial_only_warning(run_of("here:2"), {.region = "new", .address = "there:1"}), "");
  EXPECT_EQ(dial_only_warning(run_of("here:2"), {.region = "hidden"}), "") << "it is the only one";
}

}  // namespace
}  // namespace causeway::run
