// What the round protocol is given: the same in every region except `self`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "diloco/record.h"

namespace causeway::diloco {

// A point in time: since any fixed instant, never going back. The protocol reads no clock.
using Time = std::chrono::microseconds;

struct ProtocolOptions {
  std::string self;
  std::set<std::string> roster;
  std::string decider;
  Round rounds = 0;  // the run ends at this version
  std::uint32_t k = 0;
  std::size_t contributions_min = 1;  // a round with fewer is not committed
  Time grace_min{0};
  Time grace_max{0};
};

}  // namespace causeway::diloco
