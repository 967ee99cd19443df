// Whether fibres find what is wrong with a kernel's waits.
#include "tests/gpu_double/host_kernels/fibres.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>

namespace causeway::gpu_double {
namespace {

constexpr unsigned kThreads = 96;

// Each thread's neighbour's number, through memory that all share.
std::array<unsigned, kThreads> neighbours(bool waits) {
  std::array<unsigned, kThreads> shared{}, read{};
  run_grid(1, kThreads, [&] {
    const unsigned own = thread_of_block();
    shared[own] = own + 1;
    if (waits) meet_block("barrier", 0);
    read[own] = shared[(own + 1) % kThreads];
  });
  return read;
}

TEST(Fibres, RunEachThreadOfEachBlock) {
  std::array<unsigned, 3 * kThreads> runs{};
  run_grid(3, kThreads, [&] { ++runs[block_of_grid() * kThreads + thread_of_block()]; });
  EXPECT_EQ(std::accumulate(runs.begin(), runs.end(), 0U), 3 * kThreads);
  EXPECT_EQ(*std::max_element(runs.begin(), runs.end()), 1U);
}

TEST(Fibres, ABarrierThatIsMissingShowsInOneOrderOrTheOther) {
  const auto right = [](const std::array<unsigned, kThreads>& read) {
    for (unsigned i = 0; i < kThreads; ++i)
      if (read[i] != (i + 1) % kThreads + 1) return false;
    return true;
  };
  EXPECT_TRUE(right(neighbours(true)));
  EXPECT_TRUE(right(neighbours(true)));
  const bool once = right(neighbours(false)), again = right(neighbours(false));
  EXPECT_FALSE(once && again);
}

TEST(Fibres, MeetWithWhatEachBrings) {
  run_grid(1, kThreads, [&] {
    const unsigned own = thread_of_block();
    for (unsigned time = 0; time < 5; ++time) {
      const std::uint64_t* const all = meet_warp("numbers", 100 * time + own);
      for (unsigned i = 0; i < 32; ++i) ASSERT_EQ(all[i], 100 * time + own / 32 * 32 + i);
    }
    const std::uint64_t* const block = meet_block("numbers", own);
    for (unsigned i = 0; i < kThreads; ++i) ASSERT_EQ(block[i], i);
  });
}

TEST(FibresDeathTest, ThreadsThatWaitForWhatCannotComeAreNamed) {
  EXPECT_DEATH(run_grid(1, 64,
                        [] {
                          if (thread_of_block() != 5) meet_warp("shuffle", 0);
                        }),
               "left the kernel");
  EXPECT_DEATH(
      run_grid(
          1, 64,
          [] { thread_of_block() % 2 == 0 ? meet_warp("shuffle", 0) : meet_warp("ballot", 0); }),
      "different things");
  EXPECT_DEATH(
      run_grid(1, 64,
               [] { thread_of_block() < 32 ? meet_block("barrier", 0) : meet_warp("shuffle", 0); }),
      "left the kernel|for ever|of which one has left");
}

}  // namespace
}  // namespace causeway::gpu_double
