#include "intra/base/foreign_json.h"

#include <gtest/gtest.h>

namespace causeway::intra {
namespace {

TEST(ForeignJson, IsReadUnlessItIsNoneOrNestsDeep) {
  EXPECT_EQ(parse_foreign(R"({"a": [1, {"b": null}]})")["a"][0], 1);
  EXPECT_TRUE(parse_foreign("{").is_discarded());
  EXPECT_TRUE(parse_foreign("").is_discarded());
  EXPECT_EQ(parse_foreign(std::string(32, '[') + std::string(32, ']')).size(), 1U);
  EXPECT_TRUE(parse_foreign(std::string(33, '[') + std::string(33, ']')).is_discarded());
  EXPECT_TRUE(parse_foreign(std::string(100'000, '[')).is_discarded());
}

// If the time grew with the square of the number, nobody would wait for this.
TEST(ForeignJson, OfManyObjectsIsReadInTimeProportionalToTheirNumber) {
  constexpr std::size_t kObjects = 500'000;
  std::string text = "[{}";
  for (std::size_t i = 1; i < kObjects; ++i) text += ",{}";
  EXPECT_EQ(parse_foreign(text + "]").size(), kObjects);
}

}  // namespace
}  // namespace causeway::intra
