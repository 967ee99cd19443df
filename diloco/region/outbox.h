// What is to be done, in order: the machines of a region put actions here, the protocol hands them
// out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "diloco/region/action.h"

namespace causeway::diloco {

class Outbox {
 public:
  void push(Action action) { actions_.push_back(std::move(action)); }
  void note(Note::Severity severity, std::string text) { push(Note{severity, std::move(text)}); }

  // The run ends here; the first word on why counts.
  void end(int exit_code, std::string message) {
    if (ended_) return;
    ended_ = true;
    push(EndRun{exit_code, std::move(message)});
  }
  bool ended() const { return ended_; }

  std::vector<Action> take() { return std::exchange(actions_, {}); }

 private:
  std::vector<Action> actions_;
  bool ended_ = false;
};

}  // namespace causeway::diloco
