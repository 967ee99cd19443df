#include "diloco/log/raft_log.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include "diloco/log/wire.h"

namespace causeway::diloco {
namespace {

constexpr Index kReadAtOnce = 64;          // entries that are read again at once
constexpr std::size_t kChunksAgain = 256;  // some 3 kB an entry with three regions: 54 MB
constexpr Index kIdleEntries = 64;         // that the log grows by until nobody needs those
constexpr std::size_t kEntriesPerMessage = 64;
constexpr std::size_t kEntryBytesPerMessage = 1U << 20;  // but one entry, whatever its size

}  // namespace

RaftLog::RaftLog(std::vector<LogEntry> newest, Index first, const CommittedLog* earlier)
    : newest_(std::make_move_iterator(newest.begin()), std::make_move_iterator(newest.end())),
      first_(first),
      earlier_(earlier) {
  assert(first_ == 1 || earlier_ != nullptr);
}

const LogEntry& RaftLog::at(Index index) const {
  assert(index > 0 && index <= last());
  if (index >= first_) return newest_[index - first_];
  last_then_ = last();
  const Index begin = index - index % kReadAtOnce;
  const Index first = std::max<Index>(begin, 1);
  const auto held = again_.find(first);
  if (held != again_.end() && index < first + held->second.size()) {
    return held->second[index - first];
  }
  if (again_.size() >= kChunksAgain) again_.clear();
  std::vector<LogEntry>& chunk = again_[first];
  chunk = earlier_->read(first, std::min(begin + kReadAtOnce, first_) - first);
  return chunk[index - first];
}

std::vector<LogEntry> RaftLog::slice(Index first, std::size_t count) const {
  std::vector<LogEntry> entries;
  entries.reserve(count);
  for (Index index = first; index < first + count; ++index) entries.push_back(at(index));
  return entries;
}

std::size_t RaftLog::count_for_message(Index first) const {
  std::size_t count = 0, bytes = 0;
  for (Index index = first; index <= last() && count < kEntriesPerMessage; ++index) {
    bytes += encoded_bytes(at(index));
    if (count > 0 && bytes > kEntryBytesPerMessage) break;
    ++count;
  }
  return count;
}

bool RaftLog::contradicts(Index previous, Term previous_term, std::span<const LogEntry> entries,
                          Index committed) const {
  if (previous > last()) return false;
  Index index = previous;
  if (index <= committed && term_at(index) != previous_term) return true;
  for (const LogEntry& entry : entries) {
    if (++index > committed) return false;
    if (term_at(index) != entry.term) return true;
  }
  return false;
}

bool RaftLog::is_covered_by(Index its_last, Term its_term) const {
  const Term own_term = term_at(last());
  return its_term != own_term ? its_term > own_term : its_last >= last();
}

Index RaftLog::first_of_term(Index index, Index committed) const {
  const Term term = term_at(index);
  while (index > committed + 1 && term_at(index - 1) == term) --index;
  return index;
}

void RaftLog::truncate_from(Index index) {
  assert(index >= first_);
  newest_.resize(index - first_);
}

void RaftLog::forget_before(Index index) {
  if (last() >= last_then_ + kIdleEntries) again_.clear();
  if (earlier_ == nullptr || index <= first_) return;
  const Index count = std::min<Index>(index, last() + 1) - first_;
  newest_.erase(newest_.begin(), newest_.begin() + static_cast<std::ptrdiff_t>(count));
  first_ += count;
}

}  // namespace causeway::diloco
