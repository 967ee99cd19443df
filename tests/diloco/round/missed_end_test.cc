// Whoever is cut off while the run ends, and what it takes to tell it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/diloco/cluster/cluster.h"
#include "tests/diloco/round/expectations.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kStepsOfRound = 4;

// Of the whole run, after the version that a region's worker holds.
std::uint64_t steps_of_the_rest(const Cluster& cluster, const ClusterOptions& options,
                                const std::string& region) {
  return kStepsOfRound * (options.rounds - cluster.worker_state(region).version);
}

// Neither of two can decide anything without the other: nobody missed anything.
TEST(MissedEnd, TwoRegionsThatStoodStillGoOnOnceTheyAreLinkedAndWhatTheyDidIsListed) {
  ClusterOptions options{.regions = {"a", "b"}, .push_loss = 0, .counts_steps = true};
  Cluster cluster(options);
  cluster.run_until(seconds{25});
  cluster.cut("a", "b");
  cluster.run_until(minutes{10});
  const Round cut_at = cluster.history().size();
  ASSERT_LT(cut_at, options.rounds);
  for (const char* region : {"a", "b"}) {
    EXPECT_EQ(cluster.steps_taken(region), steps_of_the_rest(cluster, options, region)) << region;
  }
  cluster.heal();
  EXPECT_TRUE(cluster.finish(minutes{30})) << cluster.describe();
  expect_one_state(cluster, options);
  const bool listed = std::ranges::any_of(cluster.history(), [](const CommitRecord& record) {
    return std::ranges::any_of(record.participants,
                               [](const Participant& one) { return one.part > 0; });
  });
  EXPECT_TRUE(listed);
}

}  // namespace
}  // namespace causeway::diloco::testing
