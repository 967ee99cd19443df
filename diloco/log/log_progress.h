// How far another region's log is with the leader's, as its answers tell, and when it is to be sent
// entries (again). One message with entries at a time: a peer that takes long must not be given
// more to do for it.
#pragma once

#include <cstddef>

#include "diloco/log/raft_log.h"
#include "diloco/log/record.h"

namespace causeway::diloco {

class LogProgress {
 public:
  LogProgress() = default;
  // Of a peer to which entries after `last` are to be sent, unless it says otherwise.
  explicit LogProgress(Index last) : next_(last + 1) {}
  // Likewise, of one whose answers to an earlier leader do not count.
  void begin_anew(Index last);

  Index next() const { return next_; }    // entry to send
  Index match() const { return match_; }  // up to here the logs are equal
  bool lacks(Index last, Index commit) const { return next_ <= last || told_ < commit; }
  bool is_answered() const { return asked_ == 0; }
  // Whether to send entries now: the first time, or as there is no answer. It is asked again later
  // each time.
  bool is_due(Time now) const { return is_answered() || now >= repeat_at_; }

  // So many entries from next() on, and the leader's commit index.
  void note_sent(std::size_t count, Index commit, Time now, Time heartbeat);
  // The logs are equal up to this entry, which the leader has.
  void accept(Index index, Time now);
  // The peer wants entries from this one on. False: older than what it accepted, or a lie.
  bool step_back(Index index);

 private:
  Index next_ = 1;
  Index match_ = 0;
  Index told_ = 0;   // the commit index that it can have taken over
  Index asked_ = 0;  // entries up to here are under way, unanswered; 0: none are
  Time asked_at_{0};
  Time repeat_at_{0};
  Time patience_{0};  // until they are repeated
};

}  // namespace causeway::diloco
