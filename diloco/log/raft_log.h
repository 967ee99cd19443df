// The log of a run: its newest entries in memory, the earlier ones, all committed, on disk alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <variant>
#include <vector>

#include "diloco/log/membership.h"
#include "diloco/log/record.h"

namespace causeway::diloco {

using Term = std::uint64_t;
using Index = std::uint64_t;  // of a log entry, from 1

// No run comes near it, with an election every microsecond since the beginning of the world.
constexpr Term kTermMax = Term{1} << 60U;

struct LogEntry {
  Term term = 0;
  std::variant<std::monostate, CommitRecord, Membership> body;  // nothing: a new leader's first
};

// The committed part of the log as it is on disk.
class CommittedLog {
 public:
  virtual ~CommittedLog() = default;
  // Entries first, first + 1, ...; all `count` are there.
  virtual std::vector<LogEntry> read(Index first, std::size_t count) const = 0;
};

class RaftLog {
 public:
  // `newest` begins with entry `first`; those before it are in `earlier`, which must outlive this
  // and may be null if there are none and there will never be.
  RaftLog(std::vector<LogEntry> newest, Index first, const CommittedLog* earlier);

  Index last() const { return first_ + newest_.size() - 1; }
  Index first_in_memory() const { return first_; }
  Term term_at(Index index) const { return index == 0 ? 0 : at(index).term; }
  // Valid until the log changes or another entry is asked for.
  const LogEntry& at(Index index) const;
  std::vector<LogEntry> slice(Index first, std::size_t count) const;
  // How many entries from `first` on go into one message.
  std::size_t count_for_message(Index first) const;

  // Of what another member says of its own log.
  // Whether these entries, which follow `previous` there, are not those that are committed here.
  bool contradicts(Index previous, Term previous_term, std::span<const LogEntry> entries,
                   Index committed) const;
  // Whether a log that ends so has all that this one may have committed.
  bool is_covered_by(Index its_last, Term its_term) const;
  // The first entry of the term that entry `index` is of, but none up to `committed`.
  Index first_of_term(Index index, Index committed) const;

  void push(LogEntry entry) { newest_.push_back(std::move(entry)); }
  void truncate_from(Index index);
  // Entries before this one are committed and on disk, and hardly wanted any more. Without
  // `earlier` they stay in memory.
  void forget_before(Index index);

 private:
  std::deque<LogEntry> newest_;
  Index first_;
  const CommittedLog* earlier_;
  // What was read again, in chunks by their first entry: a coordinator whose worker is far behind
  // goes through the same rounds at every event. Released once the log has grown without them.
  mutable std::map<Index, std::vector<LogEntry>> again_;
  mutable Index last_then_ = 0;  // of this log, when one of them was wanted
};

}  // namespace causeway::diloco
