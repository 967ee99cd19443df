#include "apps/run/doctor/neighbours.h"

#include <gtest/gtest.h>

namespace causeway::run {
namespace {

TEST(Card, ArrivesAsItWasSent) {
  const Card card{.region = "east",
                  .program = "1.2.3",
                  .time_unix_s = 1234.5,
                  .settings = "k = 4\nlr = 1\n",
                  .data = {.whole = "abc", .sample = "def"},
                  .packages = {{"torch", "2.6"}}};
  const auto back = parse_card(to_json(card));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json(*back), to_json(card));
  EXPECT_EQ(back->packages.at("torch"), "2.6");
}

// What regions share is not for whoever may only look.
TEST(Card, ToAnObserverHasNoMoreThanTheRegionAndThatItIsChecked) {
  const Card card{.region = "east",
                  .program = "1.2.3",
                  .settings = "outer.lr = 0.7",
                  .data = {.whole = "fingerprint", .sample = "part of it"},
                  .packages = {{"torch", "2.6"}}};
  const std::string told = to_observer(card);
  EXPECT_NE(told.find("east"), std::string::npos);
  EXPECT_NE(told.find("causeway doctor"), std::string::npos);
  for (const char* kept : {"1.2.3", "outer.lr", "fingerprint", "part of it", "torch"})
    EXPECT_EQ(told.find(kept), std::string::npos) << kept;
}

TEST(Card, IsNothingElse) {
  for (const char* text : {"", "{", "[]", "null", R"({"region": "east", "version": 3})"})
    EXPECT_FALSE(parse_card(text)) << text;
}

TEST(Card, OfALiarReadsAsIfItSaidNothing) {
  const auto card =
      parse_card(R"({"doctor": 5, "program": [], "time_unix_s": "x", "packages": {"torch": 3}})");
  ASSERT_TRUE(card);
  EXPECT_EQ(card->region, "");
  EXPECT_EQ(card->time_unix_s, 0);
  EXPECT_TRUE(card->packages.empty());
}

}  // namespace
}  // namespace causeway::run
