// What tests of whole rounds look for in a cluster.
#pragma once

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "tests/diloco/cluster/cluster.h"

namespace causeway::diloco::testing {

inline bool lists(const CommitRecord& record, const std::string& region) {
  return std::ranges::any_of(record.participants,
                             [&region](const auto& one) { return one.region == region; });
}

inline void expect_one_state(const Cluster& cluster, const ClusterOptions& options) {
  ASSERT_EQ(cluster.history().size(), options.rounds);
  for (const std::string& region : options.regions) {
    EXPECT_EQ(cluster.worker_state(region), cluster.worker_state(options.regions.front()))
        << region;
  }
}

}  // namespace causeway::diloco::testing
