// The small files of a ledger's directory, as its coordinator writes them and as whoever looks at a
// region reads them:
//
//   run            the run's id
//   incarnation    the name of this directory as a voter
//   contributions  this region's own that are not settled, and its newest (payloads: spool)
//   finished       version and digest that the worker was told to finish at, signed
//   snapshot       version, digest and blob of the newest snapshot in the spool
//
// Each has a checksum: reading one that is damaged throws Errc::lineage, which names it. What was
// written is on disk.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/log/messages.h"
#include "diloco/log/record.h"

namespace causeway::diloco {

std::string read_run_id(const std::filesystem::path& ledger_directory);  // empty: there is none
void write_run_id(const std::filesystem::path& ledger_directory, const std::string& run_id);

// Empty if there is none, or it is damaged.
std::string read_incarnation(const std::filesystem::path& ledger_directory);
void write_incarnation(const std::filesystem::path& ledger_directory, const std::string& name);

std::vector<Contribution> read_contributions(const std::filesystem::path& ledger_directory);
void write_contributions(const std::filesystem::path& ledger_directory,
                         std::span<const Contribution> contributions);

struct SignedFinish {
  Applied at;
  std::string signature;  // of signed_content(the last entry's hash then, at); may be empty
};
std::optional<SignedFinish> read_finished(const std::filesystem::path& ledger_directory);
void write_finished(const std::filesystem::path& ledger_directory, const SignedFinish& finished);

// A file of the kind of ledger/snapshot in any region's directory; none if there is none.
std::optional<Snapshot> read_snapshot(const std::filesystem::path& path);
// Of such a file's bytes; `path` is for messages.
Snapshot parse_snapshot(const std::string& bytes, const std::filesystem::path& path);
void write_snapshot(const std::filesystem::path& path, const Snapshot& snapshot);

// Those that are not what was written, and what is wrong, as clauses; also of raft and
// checked-signatures.
std::vector<std::string> damaged_files(const std::filesystem::path& ledger_directory);

}  // namespace causeway::diloco
