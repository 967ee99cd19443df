#include "apps/run/simulate/process_action.h"

#include <gtest/gtest.h>

#include "wan-sim/scenario/scenario.h"

namespace causeway::run {
namespace {

using wan_sim::ProcessAction;
using wan_sim::ProcessRole;
using wan_sim::ProcessVerb;

TEST(ProcessAction, ConcernTheProcessesThatTheyName) {
  const ProcessAction region{ProcessVerb::kill, "eu", ProcessRole::any, {}};
  EXPECT_TRUE(concerns(region, "eu coordinator"));
  EXPECT_TRUE(concerns(region, "eu worker 1"));
  EXPECT_FALSE(concerns(region, "eu-west worker 1"));
  const ProcessAction coordinator{ProcessVerb::kill, "eu", ProcessRole::coordinator, {}};
  EXPECT_TRUE(concerns(coordinator, "eu coordinator"));
  EXPECT_FALSE(concerns(coordinator, "eu worker 1"));
  const ProcessAction workers{ProcessVerb::kill, "eu", ProcessRole::worker, {}};
  EXPECT_TRUE(concerns(workers, "eu worker 11"));
  EXPECT_FALSE(concerns(workers, "eu coordinator"));
  const ProcessAction one{ProcessVerb::kill, "eu", ProcessRole::worker, 1};
  EXPECT_TRUE(concerns(one, "eu worker 1"));
  EXPECT_FALSE(concerns(one, "eu worker 11"));
}

TEST(ProcessAction, SayWhatIsDoneToWhom) {
  EXPECT_EQ(to_string({ProcessVerb::restart, "eu", ProcessRole::worker, 1}), "restart eu worker 1");
  EXPECT_EQ(to_string({ProcessVerb::pause, "eu", ProcessRole::any, {}}), "pause eu");
}

}  // namespace
}  // namespace causeway::run
