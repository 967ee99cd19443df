#include "diloco/log/raft_log.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace causeway::diloco {
namespace {

constexpr std::size_t kReadAgain = 64;  // entries at once

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
  const bool held = index >= again_first_ && index < again_first_ + again_.size();
  if (!held) {
    again_first_ = index;
    again_ = earlier_->read(index, std::min<std::size_t>(kReadAgain, first_ - index));
  }
  return again_[index - again_first_];
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
