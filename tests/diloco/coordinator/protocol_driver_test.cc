#include "diloco/coordinator/protocol_driver.h"

#include <stdexcept>

#include <gtest/gtest.h>
#include <asio/io_context.hpp>

#include "tests/diloco/coordinator/lone_region.h"

namespace causeway::diloco {
namespace {

[[noreturn]] void throw_errno_of(int value) {
  throw std::system_error(value, std::generic_category(), "write");
}

class EndingTest : public ::testing::Test {
 protected:
  asio::io_context loop_;
  CoordinatorEnd ending_{loop_.get_executor()};
};

TEST_F(EndingTest, TheFirstOutcomeCounts) {
  EXPECT_TRUE(ending_.going_on());
  ending_.finish({4, "another lineage"});
  ending_.finish({0, "done"});
  EXPECT_FALSE(ending_.going_on());
  EXPECT_FALSE(ending_.succeeded());
  EXPECT_EQ(ending_.outcome()->exit_code, 4);
}

TEST_F(EndingTest, SucceedsWithExitCodeZero) {
  ending_.finish({0, "done"});
  EXPECT_TRUE(ending_.succeeded());
}

TEST_F(EndingTest, AFullDiskIsNoFailureForGood) {
  ending_.guard([] { throw_errno_of(ENOSPC); });
  EXPECT_FALSE(ending_.going_on());
  EXPECT_TRUE(ending_.storage_fails());
  EXPECT_FALSE(ending_.failure());
  EXPECT_FALSE(ending_.outcome());
}

TEST_F(EndingTest, AnyOtherFailureReachesMain) {
  ending_.guard([] { throw_errno_of(EADDRINUSE); });
  ending_.guard([] { throw std::runtime_error("later"); });
  EXPECT_FALSE(ending_.storage_fails());
  EXPECT_THROW(std::rethrow_exception(ending_.failure()), std::system_error);
}

TEST_F(EndingTest, WhatFailsWhileOpeningIsForGoodEvenIfItIsTheDisk) {
  ending_.fail_for_good(
      std::make_exception_ptr(std::system_error(ENOSPC, std::generic_category())));
  EXPECT_TRUE(ending_.failure());
  EXPECT_FALSE(ending_.storage_fails());
}

TEST_F(EndingTest, WakesWhoeverWaits) {
  bool woken = false;
  const auto wait = [&]() -> asio::awaitable<void> {
    while (ending_.going_on()) co_await ending_.change();
    woken = true;
  };
  asio::co_spawn(loop_, wait(), [](std::exception_ptr) {});
  loop_.poll();
  EXPECT_FALSE(woken);
  ending_.finish({0, "done"});
  loop_.run();
  EXPECT_TRUE(woken);
}

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

// The clock that rounds are timed by stands still while a host is suspended.
TEST(ProtocolDriver, ARecordBearsTheWallTimeOfItsDecision) {
  LoneRegion region(0, Start::found, {.per_day = 10});
  region.wall_s_ = 1000;
  region.begin();
  region.wall_s_ += 86'400;
  region.driver_->handle(WorkerContributed{region.contribution()});
  ASSERT_EQ(region.records().size(), 1);
  EXPECT_EQ(region.records().front().decided_unix_s, 87'400);
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
