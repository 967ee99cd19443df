// The file `ledger/records`: every entry of the log that is committed, in order, as
//
//   length (4 bytes, little-endian), LedgerEntry of diloco/log/protocol.proto:
//     entry      a LogEntry
//     hash       SHA-256(previous hash || entry); the first previous hash is SHA-256(run id)
//     signature  of the hash, by the region's key; empty where it has none
//     own        version and digest of the state that the region's newest contribution was made
//                from, and a signature of hash || version (8 bytes, little-endian) || digest
//
// Entries and hashes are equal in all regions; signatures and `own` are each region's own. The
// entry of round t says which state of version t is the agreed one; a region that contributed to it
// says there, under its signature, which one it had.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diloco/ledger/ledger_bytes.h"
#include "diloco/log/messages.h"
#include "diloco/log/planted_bug.h"
#include "diloco/log/raft.h"
#include "diloco/maths/digest.h"

namespace causeway::diloco {

struct LedgerEntry {
  LogEntry entry;
  Digest hash{};
  std::string signature;
  std::optional<Applied> own;  // none: the region had made no contribution yet
  std::string own_signature;
};

using Sign = std::function<std::string(const std::string& content)>;
// Whether `signature` is the region's, of this content.
using IsSigned = std::function<bool(const std::string& content, const std::string& signature)>;
// What the signatures of an entry are of.
std::string signed_content(const Digest& hash);
std::string signed_content(const Digest& hash, const Applied& own);

// Whether both signatures are there and the region's.
bool is_signed(const LedgerEntry& entry, const IsSigned& check);

struct LedgerExtent {
  std::size_t whole_bytes = 0;  // where the entries end
  std::size_t torn_bytes = 0;   // of one that was being written when the power failed
  std::string damage;           // what is wrong where they end, if it is not that; a clause
};

// Visits every intact entry in order with the offset that it begins at.
using VisitEntry = std::function<void(LedgerEntry entry, std::size_t offset)>;
LedgerExtent scan_entries(std::string_view bytes, const std::string& run_id,
                          const VisitEntry& visit);
// Of a file, of which a part is in memory at a time. One that is not there has no entries.
LedgerExtent scan_records(const std::filesystem::path& path, const std::string& run_id,
                          const VisitEntry& visit);
// The same. Throws std::system_error (Errc::lineage) naming it and what is wrong if it is damaged.
LedgerExtent scan_ledger(const std::filesystem::path& path, const std::string& run_id,
                         const VisitEntry& visit);
std::vector<LedgerEntry> read_ledger(const std::filesystem::path& path, const std::string& run_id);

// The entries in `bytes`, which were checked before and are whole. Throws Errc::malformed.
std::vector<LogEntry> parse_entries(std::string_view bytes);

// One entry as entry_at() gives it, which was checked before. Throws Errc::malformed.
LedgerEntry parse_entry(std::string_view entry);
// Where the entry that begins at `offset` ends; none: not all of it is in `bytes`.
std::optional<std::size_t> end_of_entry(std::string_view bytes, std::size_t offset);

// The bytes that an entry's hash is of.
std::string content_of(const LogEntry& entry);
// One entry of the file. Without `sign` its signatures are empty.
std::string ledger_bytes(const std::string& entry, const Digest& hash,
                         const std::optional<Applied>& own, const Sign& sign);

// The entry that begins at `offset`, and is whole, with its length.
std::string_view entry_at(std::string_view bytes, std::size_t offset);
// The same; empty: not all of it is there.
std::string_view entry_at(LedgerBytes& bytes, std::size_t offset);
// It, signed anew. Without `keeps_own` it no longer says what the
// region contributed from.
std::string signed_anew(std::string_view entry, bool keeps_own, const Sign& sign);

[[noreturn]] void throw_damaged(const std::filesystem::path& path, const std::string& what);

// What a region still knows when it starts, from the bytes of `ledger/records` and `ledger/raft`.
// Pure.
//
// What is damaged is not used, and neither is what was behind it. A region that lost something
// that it had promised no longer votes under its name: it goes on as a disk that was lost does,
// whose vote lapses until the log names its new one, and has the rest of the log from the others.
// (Alagappan et al., "Protocol-Aware Recovery for Consensus-Based Storage", FAST 2018.)
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

// The most voters that an intact membership names behind the damage: in `damaged`, what is left of
// `ledger/records` from its first damaged entry on, and in the bytes of `ledger/raft`. A run begins
// with one voter, and the entry that makes more of them may be among those that are cut off.
std::size_t voters_behind(std::string_view damaged, std::string_view raft);

}  // namespace causeway::diloco
