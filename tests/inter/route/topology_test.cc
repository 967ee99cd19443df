#include "inter/route/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace causeway::inter {
namespace {

using testing::ElementsAre;

constexpr double kMegabit = 1e6;

PlanInput mesh_of(const std::vector<std::string>& names, LinkCost cost, std::uint64_t bytes) {
  PlanInput input;
  for (const std::string& from : names) {
    input.payload_bytes[from] = bytes;
    for (const std::string& to : names) {
      if (from != to) {
        input.links[{from, to}] = cost;
      }
    }
  }
  return input;
}

void both_ways(PlanInput& input, const std::string& a, const std::string& b, LinkCost cost) {
  input.links[{a, b}] = input.links[{b, a}] = cost;
}

// Every region ends with every payload, nothing arrives twice, and only what is there is passed on.
void expect_complete(const PlanInput& input, const Plan& plan) {
  for (const auto& [origin, bytes] : input.payload_bytes) {
    std::set<std::string> holders{origin};
    for (const Hop& hop : plan.routes.at(origin)) {
      EXPECT_TRUE(holders.contains(hop.from)) << describe(plan);
      EXPECT_TRUE(holders.insert(hop.to).second) << describe(plan);
    }
    EXPECT_EQ(holders.size(), input.payload_bytes.size()) << describe(plan);
  }
}

TEST(Topology, EqualLinksAreUsedDirectly) {
  const PlanInput input = mesh_of({"a", "b", "c"}, {0.05, 10 * kMegabit}, 10'000'000);
  const Plan plan = choose_plan(input);
  EXPECT_EQ(plan.shape, Shape::direct);
  EXPECT_NEAR(plan.predicted_s, 0.05 + 1, 1e-9);
  expect_complete(input, plan);
}

TEST(Topology, PoorLinkIsRelayedThroughTheRegionThatServesItBest) {
  PlanInput input = mesh_of({"a", "b", "c"}, {0.05, 10 * kMegabit}, 1'000'000);
  both_ways(input, "a", "b", {0.3, 0.1 * kMegabit});
  const Plan plan = choose_plan(input);
  EXPECT_EQ(plan.shape, Shape::relay);
  EXPECT_THAT(plan.routes.at("a"), ElementsAre(Hop{"a", "c"}, Hop{"c", "b"}));
  EXPECT_LT(plan.predicted_s, 1);
  EXPECT_GT(plan_direct(input).predicted_s, 10);
  expect_complete(input, plan);
}

TEST(Topology, WhatARegionSendsInAllCountsOnEveryWay) {
  PlanInput input = mesh_of({"a", "b", "c", "d"}, {0.05, 10 * kMegabit}, 10'000'000);
  for (const char* region : {"a", "b", "c", "d"}) input.region_bytes_per_s[region] = 10 * kMegabit;
  EXPECT_NEAR(plan_direct(input).predicted_s, 0.05 + 3, 1e-9);
  // Over the third region it would be quicker by the links alone.
  both_ways(input, "a", "b", {0.05, 4 * kMegabit});
  EXPECT_EQ(choose_plan(input).shape, Shape::direct);
  input.region_bytes_per_s.clear();
  EXPECT_NE(choose_plan(input).shape, Shape::direct);
}

TEST(Topology, AbsentLinkIsRelayed) {
  PlanInput input = mesh_of({"a", "b", "c"}, {0.05, 10 * kMegabit}, 1'000'000);
  input.links.erase({"a", "b"});
  EXPECT_TRUE(std::isinf(plan_direct(input).predicted_s));
  EXPECT_EQ(choose_plan(input).shape, Shape::relay);
}

TEST(Topology, RingTakesTheOrderWithTheWidestBottleneck) {
  PlanInput input = mesh_of({"a", "b", "c", "d"}, {0.01, 1 * kMegabit}, 1'000'000);
  for (const auto& [one, other] : {std::pair{"a", "c"}, {"c", "b"}, {"b", "d"}, {"d", "a"}}) {
    both_ways(input, one, other, {0.01, 100 * kMegabit});
  }
  const Plan plan = plan_ring(input);
  EXPECT_THAT(plan.routes.at("a"), ElementsAre(Hop{"a", "c"}, Hop{"c", "b"}, Hop{"b", "d"}));
  EXPECT_EQ(choose_plan(input).shape, Shape::relay) << "pairs one hop apart need no whole ring";
  expect_complete(input, plan);
}

TEST(Topology, EveryPlanOfRandomMatricesIsComplete) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> rate(0.1, 100), latency(0.001, 0.3);
  const std::vector<std::string> names{"a", "b", "c", "d", "e", "f"};
  for (int i = 0; i < 20; ++i) {
    PlanInput input = mesh_of(names, {}, 1'000'000);
    for (auto& [pair, cost] : input.links) {
      cost = {latency(random), rate(random) * kMegabit};
    }
    for (const Plan& plan : {plan_direct(input), plan_relay(input), plan_ring(input)}) {
      expect_complete(input, plan);
      EXPECT_GE(plan.predicted_s, choose_plan(input).predicted_s);
      EXPECT_TRUE(std::isfinite(plan.predicted_s));
    }
  }
}

TEST(Topology, LargeRingsAreOrderedToo) {
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) {
    names.push_back("region-" + std::to_string(i));
  }
  const PlanInput input = mesh_of(names, {0.01, kMegabit}, 1000);
  expect_complete(input, plan_ring(input));
}

TEST(Topology, OneRegionNeedsNothing) {
  PlanInput input;
  input.payload_bytes["a"] = 10;
  EXPECT_EQ(choose_plan(input).predicted_s, 0);
}

TEST(Topology, SaysWhatItChose) {
  const Plan plan = choose_plan(mesh_of({"a", "b"}, {0.5, kMegabit}, 1'000'000));
  EXPECT_EQ(describe(plan), "direct, predicted 1.500 s; a: a>b; b: b>a");
}

}  // namespace
}  // namespace causeway::inter
