// Whether a worker that is behind comes nearer to the newest round by applying one after the other.
// A region whose rounds take longer to fetch and to apply than to be made would never take part
// again. Pure.
#pragma once

#include <optional>

#include "diloco/maths/train.h"

namespace causeway::diloco {

class Chase {
 public:
  // A worker that is fewer rounds behind counts as near. One that is not is judged each time that
  // it has applied so many.
  explicit Chase(Round window) : least_(window), window_(window) {}

  // The worker holds `applied`, and the run has come to `version`. To be told of each change.
  // One that took a snapshot and is not near yet has longer to get there by itself: what comes
  // while a snapshot is fetched may be more than a window, and another snapshot would not help.
  void look(Round applied, Round version);
  void stop();  // there is no worker
  // As last judged: the run made at least half as many rounds as the worker applied meanwhile.
  bool in_vain() const { return in_vain_; }
  // The snapshot that was to spare it rounds did not come: from now on it is judged half as often.
  void back_off();

  Round window() const { return window_; }

 private:
  struct At {
    Round applied = 0, version = 0;
  };
  static constexpr Round kLongest = 8;  // times the least window, after snapshots that came

  Round least_, window_;
  std::optional<At> at_;  // when it applied last
  Round applied_ = 0, made_ = 0;
  bool in_vain_ = false;
};

}  // namespace causeway::diloco
