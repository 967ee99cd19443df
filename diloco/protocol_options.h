// What the round protocol is given: the same in every region except `self`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "diloco/record.h"

namespace causeway::diloco {

// A point in time: since any fixed instant, never going back. The protocol reads no clock.
using Time = std::chrono::microseconds;

// A known bug to behave with, so that the simulation's checkers can be seen to find it.
enum class PlantedBug {
  none,
  forget_votes,             // acknowledges before anything is on disk (the harness loses it)
  accept_stale_frames,      // follows a leader of an older term
  commit_without_majority,  // one vote elects, one copy commits
  list_unspooled,           // lists payloads that only their contributor holds
  list_expired,             // lists work that has gone back to the residual
  no_pre_vote,              // whoever was cut off deposes the leader when it returns
};

struct ProtocolOptions {
  std::string self;
  std::string incarnation;  // of this region's disk
  bool witness = false;     // no worker, no payloads: a vote alone
  Round rounds = 0;         // the run ends at this version
  std::uint32_t k = 0;
  std::size_t contributions_min = 0;  // a round with fewer is not committed; 0: most regions
  Round staleness_max = 0;            // a contribution is listed at most this many rounds late
  bool speed_adaptive_k = false;      // slower regions take fewer steps (DyLU)
  Time grace_min{0};
  Time grace_max{0};
  Time heartbeat{std::chrono::milliseconds{500}};
  Time election{std::chrono::seconds{2}};
  std::uint64_t seed = 0;  // of election timeouts
  PlantedBug planted = PlantedBug::none;
};

}  // namespace causeway::diloco
