#include "diloco/log/log_progress.h"

#include <algorithm>

namespace causeway::diloco {
namespace {

// Heartbeats. Well below the time after which a leader that gets nothing committed is not followed
// any more: a peer that was paused must get entries before it thinks so.
constexpr int kPatienceMax = 8;

}  // namespace

void LogProgress::begin_anew(Index last) {
  next_ = last + 1;
  match_ = 0;
  asked_ = 0;
}

void LogProgress::note_sent(std::size_t count, Index commit, Time now, Time heartbeat) {
  const Index sent = next_ - 1 + count;
  told_ = std::min(commit, sent);
  if (count == 0) return;
  if (is_answered()) {
    asked_at_ = now;
  } else {
    patience_ *= 2;
  }
  patience_ = std::clamp(patience_, heartbeat, kPatienceMax * heartbeat);
  asked_ = sent;
  repeat_at_ = now + patience_;
}

void LogProgress::accept(Index index, Time now) {
  match_ = std::max(match_, index);
  next_ = std::max(next_, match_ + 1);
  // An answer to what was said before must not make these entries be sent again.
  if (is_answered() || index < asked_) return;
  asked_ = 0;
  patience_ = 2 * (now - asked_at_);
}

bool LogProgress::step_back(Index index) {
  if (index <= match_) return false;
  asked_ = 0;
  next_ = std::clamp<Index>(index, 1, std::max<Index>(next_, 2) - 1);
  return true;
}

}  // namespace causeway::diloco
