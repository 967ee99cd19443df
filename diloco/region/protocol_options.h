// What the round protocol is given: the same in every region except `self`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "diloco/log/planted_bug.h"
#include "diloco/log/record.h"
#include "diloco/maths/train.h"
#include "diloco/pacing/exchange_kind.h"
#include "diloco/pacing/k_policy.h"
#include "diloco/pacing/pace.h"

namespace causeway::diloco {

// What a run of programs begins with, where regions bring different values.
enum class InitialValues {
  founder,  // the founder's: the others take them
  equal,    // nothing: whoever has others than the founder is refused
};

// When a round is decided, and what it may list: as the run is configured. The configuration file,
// the protocol and a rehearsal all carry this one struct.
struct SyncRules {
  std::size_t contributions_min = 0;  // a round with fewer is not committed; 0: Membership::most_of
  // A contribution is listed at most this many turns of its fragment late: rounds, if there is one.
  Round staleness_max = 0;
  bool speed_adaptive_k = false;  // slower regions take fewer steps (DyLU)
  // How long a round waits for the last regions (docs/rounds.md).
  Time grace_min{0};
  Time grace_max{0};
  // Without a word from the leader for this long up to twice as long, another one is elected.
  Time election{std::chrono::seconds{2}};
  // The first round waits at most this long for regions whose worker has not attached.
  Time start_wait{0};
  InitialValues initial = InitialValues::founder;
  ExchangeKind exchange = ExchangeKind::full;
};

// That bytes arrived is said at most so often.
constexpr Time kReportInterval = std::chrono::seconds{1};

// Made from the rules as configured: ProtocolOptions options{rules};
struct ProtocolOptions : SyncRules {
  std::string self = {};
  std::string incarnation = {};  // of this region's disk
  bool witness = false;          // no worker, no payloads: a vote alone
  bool own_data = false;         // each region reads data of its own, all of it
  Pace pace = {};
  KPolicyOptions k_policy = {};  // without limits: K stays
  // Inner steps that this region's worker goes on with after it contributed, before it needs the
  // outcome; at most those of the next round.
  std::uint32_t overlap_steps = 0;
  float outer_momentum = 0;
  Time heartbeat{std::chrono::milliseconds{500}};
  // From so many regions on, what a region says to hold is gathered (round/exchange.h).
  std::size_t gathers_from = 5;
  Round records_in_memory = 64;   // at least; while their payloads are kept 128 times as many
  std::uint64_t spool_bytes = 0;  // 0: there is room for everything
  std::uint64_t seed = 0;         // of election timeouts
  PlantedBug planted = PlantedBug::none;
};

}  // namespace causeway::diloco
