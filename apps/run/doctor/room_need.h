// What a region's directory takes on its disk in the course of a run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "apps/run/config/config.h"

namespace causeway::run {

struct RoomNeed {
  std::uint64_t spool = 0;        // all that it may take
  std::uint64_t spool_least = 0;  // with less the run would stand still
  std::uint64_t states = 0;       // training states and proofs; 0: a program's, not known here
  std::uint64_t rounds = 0;       // of the run, at its first K
  // What grows with every round, after all of them.
  bool archives = false;      // ledger.keep is "all"
  std::uint64_t archive = 0;  // 0: there is none, or a program's, not known here
  std::uint64_t records = 0;  // ledger, events.jsonl, tensorboard/, and compression.jsonl

  std::uint64_t at_least() const { return std::min(spool, spool_least) + states; }
  std::uint64_t at_most() const { return spool + states + archive + records; }
};

RoomNeed room_need(const Config& config);
// "4.29 GB of spool, 1.20 MB of training states, and after 60 rounds 0.11 MB of ledger, ..."
std::string to_string(const RoomNeed& need);

}  // namespace causeway::run
