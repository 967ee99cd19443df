// Whoever is cut off while the run ends, and what it takes to tell it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/diloco/cluster/cluster.h"
#include "tests/diloco/round/expectations.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::uint64_t kStepsOfRound = 4;

// Of the whole run, after the version that a region's worker holds.
std::uint64_t steps_of_the_rest(const Cluster& cluster, const ClusterOptions& options,
                                const std::string& region) {
  return kStepsOfRound * (options.rounds - cluster.worker_state(region).version);
}

TEST(MissedEnd, TheRegionStandsStillAndHearsOfTheEndFromACoordinatorThatIsStartedAgain) {
  std::ostringstream trace;
  ClusterOptions options{.push_loss = 0, .counts_steps = true, .trace = &trace};
  Cluster cluster(options);
  cluster.run_until(seconds{25});
  for (const char* other : {"a", "b"}) cluster.cut("c", other);
  cluster.run_until(minutes{10});
  for (const char* other : {"a", "b"}) {
    ASSERT_TRUE(cluster.outcome(other)) << other;
    EXPECT_EQ(cluster.outcome(other)->exit_code, 0) << other;
  }
  EXPECT_THAT(trace.str(), HasSubstr("c did not reach the last version in time. When it can be "
                                     "reached, start this coordinator again, to tell it the end"));
  cluster.heal();  // nobody listens any more
  cluster.run_until(minutes{20});
  ASSERT_FALSE(cluster.outcome("c")) << cluster.describe();
  ASSERT_LT(cluster.worker_state("c").version, options.rounds);
  EXPECT_EQ(cluster.steps_taken("c"), steps_of_the_rest(cluster, options, "c"));
  EXPECT_THAT(cluster.describe(), HasSubstr("start the coordinator of one of them again"));
  EXPECT_THAT(cluster.describe(), Not(HasSubstr("training goes on")));

  cluster.start_again("a");
  EXPECT_TRUE(cluster.finish(minutes{40})) << cluster.describe();
  expect_one_state(cluster, options);
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
