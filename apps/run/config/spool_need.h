// What a region keeps in its spool, at most, while all is well: docs/rounds.md says what stays and
// until when.
#pragma once

#include <cstdint>

#include "apps/run/config/config.h"

namespace causeway::run {

struct SpoolNeed {
  std::uint64_t rounds = 0;         // whose payloads are there; of all fragments, each
  std::uint64_t payload_bytes = 0;  // of one region in one round: all its fragments, at most
  std::uint64_t snapshot_bytes = 0;
  std::uint64_t bytes = 0;  // payloads of all regions, the newest snapshot and the one before it
};

// Of settings that fit together. Segments that step up (codec.error_max) are counted without.
SpoolNeed spool_need(const Config& config);

}  // namespace causeway::run
