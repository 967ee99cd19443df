// A coordinator's memory on disk, in one directory:
//
//   run           the run's id
//   records       the commit records: entries of length (4 bytes, little-endian), record,
//   SHA-256(previous hash || record) contribution  this region's newest contribution (without its
//   payload, which is in the spool) snapshot      version, digest and blob of the newest snapshot
//   in the spool
//
// The first previous hash is SHA-256(run id), so that equal ledgers of one run are equal files.
// Everything is synced before a call returns.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/messages.h"
#include "diloco/record.h"

namespace causeway::diloco {

class Ledger {
 public:
  // Opens or creates the directory and locks it against a second coordinator. An entry that was
  // being written when the power failed is cut off. Throws std::system_error: Errc::lineage naming
  // the file if it is damaged or locked, or the failed operation.
  explicit Ledger(std::filesystem::path directory);
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const std::string& run_id() const { return run_id_; }  // empty: no run yet
  void set_run_id(const std::string& run_id);            // once

  const std::vector<CommitRecord>& records() const { return records_; }
  void append(std::span<const CommitRecord> records);

  std::optional<Contribution> contribution() const;
  void save(const Contribution& contribution);
  std::optional<Snapshot> snapshot() const;
  void save(const Snapshot& snapshot);

  // Hash of the last entry: equal in two regions if and only if their histories are.
  const Digest& head() const { return head_; }

 private:
  void lock();
  void load_records();

  std::filesystem::path directory_;
  int lock_fd_ = -1;
  int records_fd_ = -1;
  std::string run_id_;
  std::vector<CommitRecord> records_;
  Digest head_{};
};

}  // namespace causeway::diloco
