#include "diloco/region/attached_worker.h"

#include <string>
#include <variant>

#include <gtest/gtest.h>

namespace causeway::diloco {
namespace {

TEST(AttachedWorker, IsBusyWithAnOrderUntilItAsksAgain) {
  Outbox out;
  AttachedWorker worker(out);
  worker.ask();  // nobody is attached: of no effect
  worker.attach({}, std::nullopt);
  EXPECT_FALSE(worker.ready());
  worker.ask();
  EXPECT_TRUE(worker.ready());
  worker.order(OrderCollect{3});
  EXPECT_FALSE(worker.ready());
  EXPECT_EQ(std::get<OrderCollect>(out.take().at(0)).round, 3U);
  worker.ask();
  worker.lose();
  EXPECT_FALSE(worker.attached());
  EXPECT_TRUE(worker.applied());  // what it held is known still
}

TEST(AttachedWorker, WhatItDidBeyondTheRoundIsRememberedUntilItIsToldOf) {
  Outbox out;
  AttachedWorker worker(out);
  worker.attach({}, std::nullopt);
  worker.ask();
  worker.order_to_continue({.round = 2});
  EXPECT_TRUE(worker.continuing());
  worker.call_back();
  EXPECT_FALSE(worker.continuing());
  EXPECT_TRUE(worker.has_more());
  worker.drop_more();
  EXPECT_FALSE(worker.has_more());
}

TEST(AttachedWorker, ItsStepsAreThoseThatItSaidLast) {
  Outbox out;
  AttachedWorker worker(out);
  EXPECT_EQ(worker.steps(), 0U);
  worker.attach({}, std::nullopt);
  worker.ask(7);
  EXPECT_EQ(worker.steps(), 7U);
  worker.attach({}, std::nullopt);
  EXPECT_EQ(worker.steps(), 0U);
}

TEST(AttachedWorker, OfAnotherRunEndsTheRegion) {
  Outbox out;
  AttachedWorker worker(out);
  worker.attach({}, std::nullopt);
  EXPECT_TRUE(worker.belongs_to("run1"));
  worker.attach({}, "run1");
  EXPECT_TRUE(worker.belongs_to("run1"));
  EXPECT_FALSE(out.ended());
  EXPECT_FALSE(worker.belongs_to("run2"));
  EXPECT_TRUE(out.ended());
}

TEST(AttachedWorker, AWrongStateIsMadeAgainThreeTimes) {
  Outbox out;
  AttachedWorker worker(out);
  const Applied wrong{5, Digest{1}};
  for (int time = 1; time <= 3; ++time) {
    worker.attach(wrong, "run1");
    EXPECT_FALSE(worker.healed_enough(5));
    worker.distrust();
    worker.distrust();  // known already
    EXPECT_EQ(worker.distrusted(), wrong);
    worker.hold(wrong);
    EXPECT_FALSE(worker.distrusted());
    EXPECT_EQ(out.take().size(), 1U);
  }
  EXPECT_TRUE(worker.healed_enough(5));
  EXPECT_FALSE(out.ended());
  worker.distrust();
  ASSERT_TRUE(out.ended());
  const EndRun end = std::get<EndRun>(out.take().back());
  EXPECT_EQ(end.exit_code, 4);
  EXPECT_NE(end.message.find("If its settings or its program changed"), std::string::npos);
}

}  // namespace

}  // namespace causeway::diloco
