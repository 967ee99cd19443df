#include "diloco/coordinator/protocol_driver.h"

#include <gtest/gtest.h>

#include "tests/diloco/coordinator/lone_region.h"

namespace causeway::diloco {
namespace {

using testing::LoneRegion;

TEST(ProtocolDriver, CarriesOutWhatFollowsFromAnEvent) {
  LoneRegion region;
  region.begin();
  EXPECT_EQ(region.count<WelcomeWorker>(), 1);
  EXPECT_EQ(region.count<OrderTrain>(), 1);
}

TEST(ProtocolDriver, TicksByItself) {
  LoneRegion region;
  region.driver_->handle(Tick{});
  region.loop_.run_for(std::chrono::milliseconds{20});
  EXPECT_TRUE(region.driver_->protocol().raft().leads());
}

TEST(ProtocolDriver, HandlesNothingAfterTheEnd) {
  LoneRegion region;
  region.ending_.finish({130, "interrupted"});
  region.driver_->handle(WorkerAttached{});
  EXPECT_TRUE(region.actions_.empty());
}

TEST(ProtocolDriver, AFullDiskEndsTheActionsAndIsNotAnOutcome) {
  LoneRegion region;
  int carried_out = 0;
  ProtocolDriver driver(region.loop_.get_executor(), region.ending_, region.directory_.spool(),
                        region.directory_.protocol_options(), region.directory_.state(),
                        [&](const Action&) {
                          ++carried_out;
                          throw std::system_error(ENOSPC, std::generic_category(), "write");
                        });
  for (int i = 0; i < 1000 && carried_out == 0; ++i) {
    driver.handle(Tick{});
    region.loop_.run_for(std::chrono::milliseconds{1});
  }
  EXPECT_EQ(carried_out, 1);
  EXPECT_TRUE(region.ending_.storage_fails());
  EXPECT_FALSE(region.ending_.outcome());
  driver.handle(Tick{});
  EXPECT_EQ(carried_out, 1);
}

}  // namespace
}  // namespace causeway::diloco
