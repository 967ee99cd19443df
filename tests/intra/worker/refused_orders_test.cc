#include "intra/worker/refused_orders.h"

#include <gtest/gtest.h>

namespace causeway::intra {
namespace {

using std::chrono::milliseconds;

TEST(RefusedOrders, ASingleOneCostsNoTime) {
  RefusedOrders orders;
  EXPECT_FALSE(orders.pause());
  orders.add(0, 0);
  EXPECT_EQ(orders.in_a_row(), 1U);
  EXPECT_FALSE(orders.pause());
  orders.add(0, 0);
  EXPECT_EQ(orders.in_a_row(), 2U);
  EXPECT_EQ(orders.pause(), milliseconds{100});
}

TEST(RefusedOrders, ArePutOffForLongerAndLonger) {
  RefusedOrders orders;
  orders.add(3, 0);
  for (const int pause_ms : {100, 200, 400, 800, 1'000, 1'000}) {
    orders.add(3, 0);
    EXPECT_EQ(orders.pause(), milliseconds{pause_ms});
  }
}

TEST(RefusedOrders, AreForgottenWithAStep) {
  RefusedOrders orders;
  for (int order = 0; order < 5; ++order) orders.add(3, 0);
  orders.add(3, 1);
  EXPECT_EQ(orders.in_a_row(), 0U);
  EXPECT_FALSE(orders.pause());
}

// The run goes on without its steps.
TEST(RefusedOrders, OfAnotherRoundAreCountedAnew) {
  RefusedOrders orders;
  for (int order = 0; order < 5; ++order) orders.add(3, 0);
  orders.add(4, 0);
  EXPECT_EQ(orders.in_a_row(), 1U);
  EXPECT_FALSE(orders.pause());
}

TEST(RefusedOrders, WhatWasCalledBackIsNoRefusal) {
  RefusedOrders orders;
  for (int order = 0; order < 3; ++order) {
    orders.call_back();
    orders.add(3, 0);
  }
  EXPECT_FALSE(orders.pause());
  orders.add(3, 0);
  orders.add(3, 0);
  EXPECT_EQ(orders.in_a_row(), 2U) << "only the order that was under way was called back";
}

}  // namespace
}  // namespace causeway::intra
