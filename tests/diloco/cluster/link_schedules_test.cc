// Random schedules like those of schedules_test.cc, but payloads are bytes on disks and travel
// through inter's own spools, frames, acknowledgements and several connections, which break.
// `schedule_runner links SEED` replays one.
#include <gtest/gtest.h>

#include <spdlog/spdlog.h>

#include "tests/diloco/cluster/schedule.h"

namespace causeway::diloco::testing {
namespace {

class LinkSchedules : public ::testing::TestWithParam<int> {
 protected:
  LinkSchedules() { spdlog::set_level(spdlog::level::off); }
  ~LinkSchedules() override { spdlog::set_level(spdlog::level::info); }
};

TEST_P(LinkSchedules, DeliverWhatIsListedWhateverBreaks) {
  constexpr std::uint64_t kPerBlock = 50;
  const auto first = static_cast<std::uint64_t>(GetParam()) * kPerBlock;
  for (std::uint64_t seed = first; seed < first + kPerBlock; ++seed) {
    const Schedule schedule = make_link_schedule(seed);
    const Result result = run(schedule);
    if (!result.failure.empty()) return ADD_FAILURE() << report(schedule), void();
    EXPECT_GT(result.chunks, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, LinkSchedules, ::testing::Range(0, 4));
INSTANTIATE_TEST_SUITE_P(MoreBlocks, LinkSchedules, ::testing::Range(4, 10));

class SpoolSchedules : public LinkSchedules {};
TEST_P(SpoolSchedules, ARegionThatWasCutOffCatchesUpWithoutMoreRoomThanItMustHave) {
  constexpr std::uint64_t kPerBlock = 25;
  const auto first = static_cast<std::uint64_t>(GetParam()) * kPerBlock;
  for (std::uint64_t seed = first; seed < first + kPerBlock; ++seed) {
    const Schedule schedule = make_spool_schedule(seed);
    if (!run(schedule).failure.empty()) return ADD_FAILURE() << report(schedule), void();
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, SpoolSchedules, ::testing::Range(0, 1));
INSTANTIATE_TEST_SUITE_P(MoreBlocks, SpoolSchedules, ::testing::Range(1, 4));

// One seed, one history: a failure can be replayed.
TEST_F(LinkSchedules, SameSeedSameRun) {
  const Result once = run(make_link_schedule(7)), again = run(make_link_schedule(7));
  EXPECT_EQ(once.chunks, again.chunks);
  EXPECT_EQ(once.terms, again.terms);
  EXPECT_EQ(once.late, again.late);
}

}  // namespace
}  // namespace causeway::diloco::testing
