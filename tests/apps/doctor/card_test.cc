#include "apps/run/doctor/card.h"

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
