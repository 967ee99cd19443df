// What a region still knows when it starts, from the bytes of `ledger/records` and `ledger/raft`.
// Pure.
//
// What is damaged is not used, and neither is what was behind it. A region that lost something
// that it had promised no longer votes under its name: it goes on as a disk that was lost does,
// whose vote lapses until the log names its new one, and has the rest of the log from the others.
// (Alagappan et al., "Protocol-Aware Recovery for Consensus-Based Storage", FAST 2018.)
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diloco/ledger/ledger_file.h"
#include "diloco/log/planted_bug.h"
#include "diloco/log/raft.h"

namespace causeway::diloco {

// ledger/raft: what a voter has promised, and the log from first_index on.
struct Promises {
  Term term = 0;
  std::string vote;
  Index first_index = 1;
  std::vector<LogEntry> entries;
};
std::string raft_bytes(const Promises& promises);

struct Recovery {
  Promises promises;  // with the entries behind those that are intact in ledger/records
  // What was lost of what the region had promised, as a clause; empty if nothing was.
  std::string lost;
};
// `records`: of which `committed` entries are intact; `raft`: the bytes of ledger/raft.
Recovery recover(const LedgerExtent& records, Index committed, std::string_view raft,
                 PlantedBug planted = PlantedBug::none);

}  // namespace causeway::diloco
