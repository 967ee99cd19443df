// A coordinator's memory on disk, in one directory:
//
//   records        the committed log: ledger_file.h
//   raft           what this voter has promised, and the rest of its log: ledger_file.h
//   run, incarnation, contributions, finished, snapshot: ledger_files.h
//   checked-signatures  up to where those in records need no check: checked_signatures.h
//   lock           held by the one coordinator that uses the directory
//
// Everything is synced before a call returns, and has checksums or hashes. Damage to records, raft
// or incarnation costs this region its vote until the log names it anew, and the rest of the log
// comes from the others; bytes that were cut off are kept in records.damaged. Other damage is
// refused.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diloco/files/file_io.h"
#include "diloco/ledger/checked_signatures.h"
#include "diloco/ledger/ledger_file.h"
#include "diloco/log/messages.h"
#include "diloco/log/raft.h"
#include "diloco/log/record.h"

namespace causeway::diloco {

class Ledger : public CommittedLog {
 public:
  // Opens or creates the directory and locks it against a second coordinator. An entry that was
  // being written when the power failed is cut off. Signatures that do not pass `check` are made
  // anew. The log says what was lost to damage. Throws std::system_error:
  // Errc::lineage naming the file if it is damaged, resource_unavailable_try_again if it is locked,
  // or the failed operation.
  // With `key`, the SHA-256 in hex digits of the public one that `check` goes by, what passed is
  // not checked again while its bytes are the same.
  explicit Ledger(std::filesystem::path directory, Sign sign = {}, const IsSigned& check = {},
                  const std::string& key = {});
  ~Ledger() override;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const std::string& run_id() const { return run_id_; }  // empty: no run yet
  void set_run_id(const std::string& run_id);            // once; or found():
  // A new run's id and first entry. A crash leaves both or neither.
  void found(const std::string& run_id, const LogEntry& first);
  // Before there is an entry: the first id was a wrong one. This voter promises under another name
  // from here on, and what it promised in the other run is forgotten.
  void change_run_id(const std::string& run_id);
  const std::string& incarnation() const { return incarnation_; }

  // With the newest entries; it refers to this for the earlier ones.
  RaftState raft() const;
  std::vector<LogEntry> read(Index first, std::size_t count) const override;
  // The next entries that are committed, and what the newest own contribution was made from.
  void append(std::span<const LogEntry> entries, const std::optional<Applied>& own = {});
  // `entries`: the log from first_index on.
  void save_raft(Term term, const std::string& vote, Index first_index,
                 std::span<const LogEntry> entries);

  std::vector<Contribution> contributions() const;
  void save(std::span<const Contribution> contributions);
  std::optional<Snapshot> snapshot() const;
  void save(const Snapshot& snapshot);
  std::optional<Applied> finished() const;
  void save_finished(Round version, const Digest& state);
  // A record takes the rounds from this one back: what was signed of a later version is void.
  void void_finished_after(Round round);

  // Hash of the last entry: equal in two regions if and only if their histories are.
  const Digest& head() const { return head_; }
  Index committed() const { return committed_; }

 private:
  void lock();
  void open_incarnation();
  void open_records();
  void mend_signatures(const IsSigned& check);
  void sign_finished_anew();
  void recover_promises(const LedgerExtent& extent, const Membership& newest);
  bool others_may_have_it(const LedgerExtent& extent, const Membership& newest,
                          const Recovery& recovery) const;
  void set_damaged_aside(std::size_t whole_bytes);
  void rename_voter();
  void cut_records(std::size_t bytes);
  void note_offset(std::size_t offset);

  std::filesystem::path directory_;
  Sign sign_;
  Descriptor lock_;
  int records_fd_ = -1;
  std::string run_id_;
  std::string incarnation_;
  Index committed_ = 0;
  std::size_t records_bytes_ = 0;
  std::optional<CheckedSignatures> checked_;
  std::vector<std::size_t> offsets_;  // of every kStride-th entry, from the first on: ledger.cc
  Digest head_{};
};

}  // namespace causeway::diloco
