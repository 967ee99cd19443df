// The file `ledger/records`: every entry of the log that is committed, in order, as
//
//   length (4 bytes, little-endian), LedgerEntry of diloco/protocol.proto:
//     entry      a LogEntry
//     hash       SHA-256(previous hash || entry); the first previous hash is SHA-256(run id)
//     signature  of the hash, by the region's key; empty where it has none
//
// Entries and hashes are equal in all regions; signatures are each region's own.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "diloco/digest.h"
#include "diloco/raft.h"

namespace causeway::diloco {

struct LedgerEntry {
  LogEntry entry;
  Digest hash{};
  std::string signature;
};

struct LedgerContent {
  std::vector<LedgerEntry> entries;
  std::size_t whole_bytes = 0;  // where they end
  std::size_t torn_bytes = 0;   // of an entry that was being written when the power failed
};

// Throws std::system_error (Errc::lineage) naming `path` and what is wrong if it is damaged.
LedgerContent read_ledger(const std::filesystem::path& path, const std::string& run_id);

// One entry of the file.
std::string ledger_bytes(const std::string& entry, const Digest& hash,
                         const std::string& signature);

[[noreturn]] void throw_damaged(const std::filesystem::path& path, const std::string& what);

}  // namespace causeway::diloco
