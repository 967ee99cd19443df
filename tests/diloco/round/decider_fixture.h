// The decider of region a, in round 0 of a run of a, b and c.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "diloco/round/decider.h"

namespace causeway::diloco {

class DeciderTest : public ::testing::Test {
 protected:
  static ProtocolOptions options(std::size_t contributions_min) {
    ProtocolOptions options;
    options.self = "a";
    options.pace = {.steps = 400, .k = 4};
    options.contributions_min = contributions_min;
    options.grace_min = std::chrono::seconds{1};
    options.grace_max = std::chrono::seconds{30};
    return options;
  }
  static Membership membership() {
    Membership membership;
    for (const char* region : {"a", "b", "c"}) {
      membership = with(membership, {.region = region, .incarnation = "1"});
    }
    return membership;
  }

  DeciderTest() : decider_(options(2), membership(), nullptr) {
    for (const char* region : {"b", "c"}) decider_.set_up(region, true);
  }

  static Contribution contribution(const std::string& region, std::uint64_t tokens = 100,
                                   std::uint8_t state = 1) {
    Contribution made{.run_id = "run", .region = region, .tokens = tokens, .data_cursor = tokens};
    made.delta_norm = 1;
    made.state.fill(state);
    made.payload.size_bytes = 1000;
    made.payload.hash.fill(static_cast<std::uint8_t>(region.front()));
    return made;
  }
  // Contributed, and held by its region and by one other.
  void give(const Contribution& made, Time now = Time{0}) {
    decider_.add(made, made.region, 1000, now);
    decider_.add(made, made.region == "a" ? "b" : "a", 1000, now);
  }

  Decider::Verdict decide(Time now) {
    return decider_.decide({.next_k = 4, .since_exchange = 4}, now);
  }

  Decider decider_;
};

}  // namespace causeway::diloco
