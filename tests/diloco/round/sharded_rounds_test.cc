// Whole runs of which the rounds are sharded: everybody ends with one state, and what a region
// sends does not grow with the number of regions.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "tests/diloco/cluster/cluster.h"
#include "tests/diloco/round/expectations.h"

namespace causeway::diloco::testing {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kPayloadBytes = 3'600;

// Nothing fails, and shards are shared out evenly.
ClusterOptions quiet_run(std::size_t regions, std::size_t shards) {
  std::vector<std::string> names{"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  names.resize(regions);
  return {.regions = names,
          .rounds = 40,
          .compute_max = seconds{3},
          .payload_bytes_min = kPayloadBytes,
          .payload_bytes_max = kPayloadBytes,
          .shards = shards,
          .push_loss = 0};
}

std::map<std::string, std::uint64_t> sent_by_each(const Cluster& cluster,
                                                  const ClusterOptions& options) {
  std::map<std::string, std::uint64_t> sent;
  for (const std::string& region : options.regions) sent[region] = cluster.sent_bytes(region);
  return sent;
}

// Payloads that a region sends in a round, of whoever sends most or least.
struct Sent {
  double most = 0, least = 1e9;
};
Sent payloads_per_round(std::size_t regions, std::size_t shards) {
  const ClusterOptions options = quiet_run(regions, shards);
  Cluster cluster(options);
  const auto run_to = [&cluster](Round round) {
    while (cluster.history().size() < round && cluster.now() < minutes{30})
      cluster.run_until(cluster.now() + seconds{1});
    return cluster.history().size();
  };
  const Round from = run_to(8);
  const auto before = sent_by_each(cluster, options);
  const Round to = run_to(33);
  EXPECT_GT(to, from);
  Sent sent;
  for (const auto& [region, bytes] : sent_by_each(cluster, options)) {
    const double payloads = double(bytes - before.at(region)) / kPayloadBytes / double(to - from);
    sent.most = std::max(sent.most, payloads);
    sent.least = std::min(sent.least, payloads);
  }
  return sent;
}

TEST(ShardedRounds, ListTheSumsOfEverybodysWorkAndEndInOneState) {
  const ClusterOptions options = quiet_run(6, 7);
  Cluster cluster(options);
  EXPECT_TRUE(cluster.finish(minutes{30})) << cluster.describe();
  expect_one_state(cluster, options);
  for (const CommitRecord& record : cluster.history()) {
    // In the first rounds regions still learn, one after the other, that they take part.
    if (record.round < 2) continue;
    EXPECT_EQ(record.participants.size(), 6U) << "round " << record.round;
    EXPECT_EQ(record.sums.size(), 7U) << "round " << record.round;
    EXPECT_TRUE(record.next_sharded);
  }
}

TEST(ShardedRounds, WhatARegionSendsDoesNotGrowWithTheNumberOfRegions) {
  for (const std::size_t regions : {6U, 9U}) {
    const Sent sharded = payloads_per_round(regions, 18), full = payloads_per_round(regions, 0);
    const std::string of = std::to_string(regions) + " regions";
    RecordProperty("sharded, " + of, std::to_string(sharded.most));
    RecordProperty("full, " + of, std::to_string(full.most));
    EXPECT_LE(sharded.most, 3.3) << of;
    EXPECT_GE(sharded.least, 1) << of << ": it is counted";
    EXPECT_NEAR(full.most, double(regions - 1), 0.5) << of;
    EXPECT_NEAR(full.least, double(regions - 1), 0.5) << of;
  }
}

}  // namespace
}  // namespace causeway::diloco::testing
