// A coordinator's memory on disk, in one directory:
//
//   run            the run's id
//   incarnation    the name of this directory as a voter
//   records        the committed log: ledger_file.h
//   raft           what this voter has promised, and the rest of its log
//   contributions  this region's own that are not settled, and its newest (payloads: spool)
//   finished       version and digest that the worker was told to finish at
//   snapshot       version, digest and blob of the newest snapshot in the spool
//   lock           held by the one coordinator that uses the directory
//
// Everything is synced before a call returns.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/ledger_file.h"
#include "diloco/messages.h"
#include "diloco/raft.h"
#include "diloco/record.h"

namespace causeway::diloco {

class Ledger {
 public:
  using Sign = std::function<std::string(const std::string& content)>;

  // Opens or creates the directory and locks it against a second coordinator. An entry that was
  // being written when the power failed is cut off. Throws std::system_error: Errc::lineage naming
  // the file if it is damaged or locked, or the failed operation.
  explicit Ledger(std::filesystem::path directory, Sign sign = {});
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const std::string& run_id() const { return run_id_; }  // empty: no run yet
  void set_run_id(const std::string& run_id);            // once
  const std::string& incarnation() const { return incarnation_; }

  RaftState raft() const;
  // The next entries that are committed.
  void append(std::span<const LogEntry> entries);
  // `entries`: the log from first_index on.
  void save_raft(Term term, const std::string& vote, Index first_index,
                 std::span<const LogEntry> entries);

  std::vector<Contribution> contributions() const;
  void save(std::span<const Contribution> contributions);
  std::optional<Snapshot> snapshot() const;
  void save(const Snapshot& snapshot);
  std::optional<Applied> finished() const;
  void save_finished(Round version, const Digest& state);

  // Hash of the last entry: equal in two regions if and only if their histories are.
  const Digest& head() const { return head_; }

 private:
  void lock();
  void open_incarnation();
  void open_records();
  std::optional<Snapshot> read_snapshot(const char* name) const;
  void write_snapshot(const char* name, const Snapshot& snapshot);

  std::filesystem::path directory_;
  Sign sign_;
  int lock_fd_ = -1;
  int records_fd_ = -1;
  std::string run_id_;
  std::string incarnation_;
  std::vector<LogEntry> committed_;
  Digest head_{};
};

}  // namespace causeway::diloco
