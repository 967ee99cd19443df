#include "inter/mesh/pings.h"

#include <chrono>

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

using std::chrono::milliseconds;

constexpr Pings::Clock::time_point kBegan{};

TEST(Pings, AnAnswerEndsTheWaitForThoseBeforeIt) {
  Pings pings;
  const auto first = pings.next(kBegan), second = pings.next(kBegan + milliseconds{10});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(pings.take_answer(*second, kBegan + milliseconds{40}), milliseconds{30});
  EXPECT_EQ(pings.take_answer(*first, kBegan + milliseconds{50}), std::nullopt);
  EXPECT_EQ(pings.take_answer(*second, kBegan + milliseconds{50}), std::nullopt) << "twice";
}

TEST(Pings, TheDelayIsThatOfTheLastAnswerOrOfTheOldestThatIsWaitedFor) {
  Pings pings;
  EXPECT_EQ(pings.answer_delay(kBegan), milliseconds{0});
  const auto first = pings.next(kBegan);
  EXPECT_EQ(pings.answer_delay(kBegan + milliseconds{20}), milliseconds{20});
  pings.take_answer(*first, kBegan + milliseconds{30});
  EXPECT_EQ(pings.answer_delay(kBegan + milliseconds{90}), milliseconds{30});
  pings.next(kBegan + milliseconds{100});
  EXPECT_EQ(pings.answer_delay(kBegan + milliseconds{110}), milliseconds{30});
  EXPECT_EQ(pings.answer_delay(kBegan + milliseconds{140}), milliseconds{40});
}

TEST(Pings, NoneIsSentWhileManyAreUnanswered) {
  Pings pings;
  std::uint64_t newest = 0;
  while (const auto ping = pings.next(kBegan)) newest = *ping;
  EXPECT_EQ(newest, 256U);
  pings.take_answer(newest, kBegan);
  EXPECT_EQ(pings.next(kBegan), newest + 1);
}

}  // namespace
}  // namespace causeway::inter
