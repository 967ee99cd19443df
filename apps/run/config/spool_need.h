// What a region keeps in its spool, at most, while all is well: docs/region-directory.md says what
// stays and until when.
#pragma once

#include <cstdint>
#include <string>

#include "apps/run/config/config.h"
#include "diloco/log/messages.h"
#include "diloco/maths/layout.h"

namespace causeway::run {

struct SpoolNeed {
  std::uint64_t rounds = 0;         // whose payloads are there; of all fragments, each
  std::uint64_t payload_bytes = 0;  // of one region in one round: all its fragments, at most
  std::uint64_t round_bytes = 0;    // likewise of all regions, as far as this one holds them
  std::uint64_t snapshot_bytes = 0;
  std::uint64_t bytes = 0;  // payloads of all regions, the newest snapshot and the one before it
  bool fewer_saves_help = false;  // the rounds between two snapshots are what makes `rounds` large
};

// Of settings that fit together. Segments that step up (codec.error_max) are counted without.
SpoolNeed spool_need(const Config& config);
// Likewise with a model of a program's own, which makes a snapshot every `save_rounds` rounds.
SpoolNeed spool_need(const Config& config, const diloco::Layout& layout, std::uint32_t save_rounds);

// What sync.spool_gib must be for that, and why; empty: it is enough. `saves`: which setting says
// how often there is a snapshot.
std::string spool_problem(const Config& config, const SpoolNeed& need, const std::string& saves);

// Likewise for a program that attaches to the coordinator, with the key's name. `save_rounds` 0:
// the program did not say it. Of tensors that cannot be laid out, or not with these codecs, nothing
// is said: the program finds that out itself.
std::string spool_problem_of_program(const Config& config, const diloco::NamedTensors& tensors,
                                     std::uint32_t save_rounds);

}  // namespace causeway::run
