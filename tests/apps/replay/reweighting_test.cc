#include "apps/run/replay/reweighting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/run/config/config.h"

namespace causeway::run {
namespace {

using testing::HasSubstr;

diloco::CommitRecord three_regions() {
  return {.run_id = "run",
          .round = 4,
          .participants = {{.region = "ap", .round = 4, .weight = 0.5F},
                           {.region = "eu", .round = 3, .weight = 0.125F},
                           {.region = "eu", .round = 4, .weight = 0.125F},
                           {.region = "us", .round = 4, .weight = 0.25F}}};
}

std::vector<float> weights_after(const std::vector<Reweighting>& changes) {
  std::vector<float> weights;
  for (const auto& one : reweighted(three_regions(), changes).participants)
    weights.push_back(one.weight);
  return weights;
}

template <typename Call>
std::string refusal_of(Call call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Reweighting, WhoIsLeftOutLeavesItsWeightToTheOthersInProportion) {
  EXPECT_THAT(weights_after({{"eu", 4, {}}}),
              testing::ElementsAre(testing::FloatEq(2.0F / 3), testing::FloatEq(1.0F / 3)));
  EXPECT_THAT(weights_after({{"ap", 4, {}}}), testing::ElementsAre(0.25F, 0.25F, 0.5F));
}

TEST(Reweighting, AWeightIsPutInPlaceOfTheRecords) {
  EXPECT_THAT(weights_after({{"us", 4, 0.0F}, {"ap", 4, 1.0F}}),
              testing::ElementsAre(1.0F, 0.125F, 0.125F, 0.0F));
}

TEST(Reweighting, OtherRoundsStayAsTheyAre) {
  EXPECT_THAT(weights_after({{"us", 5, {}}}), testing::ElementsAre(0.5F, 0.125F, 0.125F, 0.25F));
}

TEST(Reweighting, NobodyIsInASumByItself) {
  diloco::CommitRecord sharded = three_regions();
  sharded.sums = {{.hash = {}, .size_bytes = 1}};
  const std::string why =
      ": round 4 was sharded: the ledger keeps the sums of its contributions alone, and no single "
      "one can be left out or weighted otherwise; for such questions train with sync.exchange = "
      "\"full\"";
  EXPECT_EQ(refusal_of([&] { reweighted(sharded, {{"eu", 4, {}}}); }), "--without eu@4" + why);
  EXPECT_EQ(refusal_of([&] { reweighted(sharded, {{"us", 4, 1.0F}}); }), "--weight us@4" + why);
  EXPECT_EQ(reweighted(sharded, {{"us", 5, 1.0F}}).participants.size(), 4U);
}

TEST(Reweighting, WhoIsNotListedCannotBeLeftOut) {
  EXPECT_EQ(refusal_of([] {
              weights_after({{"sa", 4, {}}});
            }),
            "round 4 does not list sa; it lists ap, eu, eu, us");
  EXPECT_EQ(refusal_of([] {
              weights_after({{"ap", 4, {}}, {"eu", 4, {}}, {"us", 4, {}}});
            }),
            "without us round 4 would list nobody");
}

TEST(Reweighting, OneThatIsChangedTwiceIsNamedWithBothChanges) {
  const std::string why = " both change what one region gave to one round: keep one of them";
  EXPECT_EQ(refusal_of([] {
              check_each_once({{"us", 3, {}}, {"eu", 3, {}}, {"us", 3, 0.0F}});
            }),
            "--without us@3 and --weight us@3=0" + why);
  EXPECT_EQ(refusal_of([] {
              check_each_once({{"us", 3, 0.25F}, {"us", 3, 0.5F}});
            }),
            "--weight us@3=0.25 and --weight us@3=0.5" + why);
  EXPECT_EQ(refusal_of([] {
              check_each_once({{"us", 3, {}}, {"us", 4, {}}, {"eu", 3, 1.0F}});
            }),
            "accepted");
}

TEST(Reweighting, IsReadAsRegionRoundAndWeight) {
  const Reweighting without = parse_without("eu-west@40"), weight = parse_weight("eu-west@40=0.25");
  EXPECT_EQ(without.region, "eu-west");
  EXPECT_EQ(without.round, 40U);
  EXPECT_FALSE(without.weight);
  EXPECT_EQ(weight.region, "eu-west");
  EXPECT_EQ(weight.weight, 0.25F);
  for (const char* text : {"", "eu", "@4", "eu@", "eu@x", "eu@-1", "eu@4=1"})
    EXPECT_THAT(refusal_of([&] { parse_without(text); }), HasSubstr("must be REGION@ROUND"))
        << text;
  for (const char* text : {"eu@4", "eu@4=", "eu@4=x", "eu@4=-1", "eu@4=inf", "eu@4=nan"})
    EXPECT_THAT(refusal_of([&] { parse_weight(text); }), HasSubstr("=WEIGHT")) << text;
}

TEST(Apart, MeasuresTwoMovesFromOnePlace) {
  const std::vector<float> origin{1, 1}, a{4, 5}, b{-3, 4};
  const Apart moves = apart(origin, a, b);
  EXPECT_DOUBLE_EQ(moves.norm_a, 5);
  EXPECT_DOUBLE_EQ(moves.norm_b, 5);
  EXPECT_DOUBLE_EQ(moves.norm_difference * moves.norm_difference, 50);
  EXPECT_DOUBLE_EQ(moves.cosine, 0);
  EXPECT_DOUBLE_EQ(apart(origin, origin, a).cosine, 1);
}

}  // namespace
}  // namespace causeway::run
