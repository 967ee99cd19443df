// Whether a worker that is behind comes nearer to the newest round by applying one after the other.
// A region whose rounds take longer to fetch and to apply than to be made would never take part
// again. Pure.
#pragma once

#include <optional>

#include "diloco/log/messages.h"

namespace causeway::diloco {

class Chase {
 public:
  // It looks each time that the worker has applied so many rounds.
  explicit Chase(Round window) : window_(window) {}

  // The worker holds `applied`, and the run has come to `version`.
  void look(Round applied, Round version);
  // As when last looked: it would apply at least twice as many as it is behind.
  bool in_vain() const { return in_vain_; }
  void stop();  // nobody knows how far the run has come

  Round window() const { return window_; }

 private:
  struct Since {
    Round applied = 0, version = 0;
  };
  Round window_;
  std::optional<Since> since_;
  bool in_vain_ = false;
};

}  // namespace causeway::diloco
