#include "apps/run/simulate/region_processes.h"

#include <gtest/gtest.h>

#include "tests/apps/temporary.h"

namespace causeway::run {
namespace {

TEST(Baseline, IsOneProcessWhereWorkersWouldWaitForACore) {
  const Config config = load_text(kSmallConfig);
  EXPECT_TRUE(baseline_is_one_process(config, 1));
  EXPECT_FALSE(baseline_is_one_process(config, 2)) << "a core for each of the two regions";
}

// One process has one device, and reads one set of files.
TEST(Baseline, IsOneProcessOnlyOfRegionsThatAreAlike) {
  const Config alike = load_text(kSmallConfig);
  Config config = alike;
  config.regions[1].device = intra::Device::cuda;
  EXPECT_FALSE(baseline_is_one_process(config, 1));
  config = alike;
  config.regions[1].data_files = {"other.txt"};
  EXPECT_FALSE(baseline_is_one_process(config, 1));
  config = alike;
  config.data.per_region = true;
  EXPECT_FALSE(baseline_is_one_process(config, 1));
  config = alike;
  config.train.timed_step_ms = 10;
  EXPECT_FALSE(baseline_is_one_process(config, 1)) << "they wait, and need no core";
}

}  // namespace
}  // namespace causeway::run
