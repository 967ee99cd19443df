#include "inter/base/pieces.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace causeway::inter {
namespace {

TEST(TakeTurns, EndsWithAFailureOfEitherThread) {
  for (const std::size_t failing : {0UL, 1UL}) {
    std::atomic<int> begun = 0;
    const auto fail = [&](std::size_t piece, std::size_t thread) {
      ++begun;
      if (piece < 10 && thread != failing) {  // until the other one has begun
        while (begun < 2) std::this_thread::yield();
      } else if (thread == failing) {
        throw std::runtime_error("no room");
      }
    };
    EXPECT_THROW(take_turns(1'000'000, fail), std::runtime_error);
    EXPECT_LT(begun, 1'000'000);
  }
}

TEST(TakeTurns, DoesEachPieceOnce) {
  std::vector<std::atomic<int>> done(1000);
  take_turns(done.size(), [&](std::size_t piece, std::size_t thread) {
    EXPECT_LT(thread, 2U);
    ++done[piece];
  });
  EXPECT_TRUE(std::ranges::all_of(done, [](const auto& times) { return times == 1; }));
}

}  // namespace
}  // namespace causeway::inter
