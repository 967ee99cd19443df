// Regions whose disks are put back to what they were: restored from a snapshot, or replaced by a
// copy. As long as somebody who knows better is there, nothing that was decided is lost.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/diloco/cluster/cluster.h"

namespace causeway::diloco {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::Cluster;
using testing::ClusterOptions;

struct Members {
  std::vector<std::string> regions;
  std::string witness;
};

class OldCopies : public ::testing::TestWithParam<std::uint64_t> {
 protected:
  static ClusterOptions options_of(const Members& members) {
    ClusterOptions options{.seed = GetParam(), .regions = members.regions, .rounds = 16};
    options.witness = members.witness;
    return options;
  }
  static const std::vector<Members>& all_members() {
    static const std::vector<Members> all{{{"a", "b"}, ""},
                                          {{"a", "b", "w"}, "w"},
                                          {{"a", "b", "c"}, ""},
                                          {{"a", "b", "c", "d"}, ""}};
    return all;
  }
  static void run_to_round(Cluster& cluster, std::size_t rounds) {
    while (cluster.history().size() < rounds) cluster.run_until(cluster.now() + seconds{1});
  }
  // Whatever breaks the one history throws on the way.
  static void expect_end(Cluster& cluster, const ClusterOptions& options) {
    EXPECT_TRUE(cluster.finish(cluster.now() + minutes{30})) << cluster.describe();
    EXPECT_EQ(cluster.history().size(), options.rounds);
    for (const std::string& region : options.regions)
      EXPECT_EQ(cluster.version(region), options.rounds) << region;
  }
};

TEST_P(OldCopies, ARegionThatGoesBackIsGivenWhatItLacks) {
  for (const Members& members : all_members()) {
    for (const std::string& region : members.regions) {
      const ClusterOptions options = options_of(members);
      Cluster cluster(options);
      run_to_round(cluster, 3);
      cluster.keep_copy(region);
      run_to_round(cluster, 8);
      cluster.put_back(region);
      cluster.start(region);
      expect_end(cluster, options);
    }
  }
}

// What fewer have is lost, and those that decide it anew cannot know of it.
TEST_P(OldCopies, RegionsThatAllGoBackLoseNothingThatMostCopiesHave) {
  const ClusterOptions options = options_of({{"a", "b", "c"}, ""});
  Cluster cluster(options);
  run_to_round(cluster, 3);
  cluster.keep_copy("a");
  run_to_round(cluster, 8);
  const auto has_all = [&](const std::string& region) {
    return cluster.version(region) == cluster.history().size();
  };
  while (!has_all("b") || !has_all("c")) cluster.run_until(cluster.now() + milliseconds{10});
  for (const char* region : {"b", "c"}) cluster.keep_copy(region);
  for (const std::string& region : options.regions) cluster.put_back(region);
  for (const std::string& region : options.regions) cluster.start(region);
  expect_end(cluster, options);
}

INSTANTIATE_TEST_SUITE_P(Seeds, OldCopies, ::testing::Range<std::uint64_t>(1, 6));

}  // namespace
}  // namespace causeway::diloco
