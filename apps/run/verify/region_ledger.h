// A region's directory as an auditor reads it: the committed log and the region's signatures. What
// is not under the hash chain or a signature (events.jsonl, status.json) is not read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "diloco/ledger/ledger_file.h"
#include "diloco/log/record.h"

namespace causeway::run {

struct RegionLedger {
  std::filesystem::path directory;
  std::string name;  // as the log's members have it; the directory's own if none of them is here
  std::string run_id;
  std::vector<diloco::LedgerEntry> entries;
  std::size_t torn_bytes = 0;  // of a last entry that was being written, or is damaged
};

// It is a run's directory, or a copy of one, and not a region's. That of `causeway simulate` has a
// link to a region's ledger beside its regions/.
bool stands_for_all_regions(const std::filesystem::path& path);

// Of each path, which is a region's directory or a run's with such in its regions/ or in itself:
// the regions'. Throws std::system_error (diloco::Errc::lineage) saying what to name if it is
// neither, or if one comes twice.
std::vector<std::filesystem::path> region_directories(
    const std::vector<std::filesystem::path>& paths);

// Throws Errc::lineage naming the file if there is no ledger, if it has no entries, or if it is
// damaged.
RegionLedger read_region_ledger(const std::filesystem::path& region_directory);

// Those of `paths`, of one run. Throws as the above do, and if they are of several runs.
std::vector<RegionLedger> read_region_ledgers(const std::vector<std::filesystem::path>& paths);

// The certificates of a run of `causeway simulate`, beside the regions; empty: there are none.
std::filesystem::path certificates_beside(const std::filesystem::path& region_directory);

// Null: it is a membership, or the first entry of a leader.
const diloco::CommitRecord* record_in(const diloco::LedgerEntry& entry);

// The records that stand, that of round t at place t, and those that took contributions out of a
// round again: each voided what had been agreed on from that round on.
struct Records {
  std::vector<const diloco::CommitRecord*> standing;
  struct Withdrawal {
    diloco::Round round = 0;
    std::size_t entry = 0;  // its place in the ledger
  };
  std::vector<Withdrawal> withdrawals;
};
// Throws Errc::lineage if one is out of its place, or takes back what it must not.
Records read_records(const RegionLedger& ledger);
// "entry 12 (round 9: eu-west us-east)"
std::string describe(const diloco::LedgerEntry& entry, std::size_t index);

}  // namespace causeway::run
