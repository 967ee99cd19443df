#include "diloco/log/raft_log.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace causeway::diloco {
namespace {

constexpr Index kReadAtOnce = 64;          // entries that are read again at once
constexpr std::size_t kChunksAgain = 256;  // some 1 kB an entry with ten regions: 16 MB

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

void RaftLog::truncate_from(Index index) {
  assert(index >= first_);
  newest_.resize(index - first_);
}

void RaftLog::forget_before(Index index) {
  if (earlier_ == nullptr || index <= first_) return;
  const Index count = std::min<Index>(index, last() + 1) - first_;
  newest_.erase(newest_.begin(), newest_.begin() + static_cast<std::ptrdiff_t>(count));
  first_ += count;
}

}  // namespace causeway::diloco
