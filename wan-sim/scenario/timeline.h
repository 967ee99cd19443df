// What is due when: a scenario's timeline and its traces, merged. Pure.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "wan-sim/scenario/overlaps.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

class Timeline {
 public:
  explicit Timeline(const Scenario& scenario);

  // More to come, at a time that is not over.
  void add(const TimedAction& action);

  // Since the run's start; none when nothing more will happen.
  std::optional<Time> next() const;
  // All that is due by `now`, in order, each once, as overlaps leave it.
  std::vector<TimedAction> take(Time now);

 private:
  struct Cursor {
    Trace trace;
    std::size_t step = 0;
    Time begin{0};  // of the present repetition
    Time at() const { return begin + trace.steps[step].at; }
  };
  Action take_step(const Pair& pair, Cursor& cursor);
  Cursor* first_cursor(const Pair*& pair);

  std::vector<TimedAction> actions_;  // ascending
  std::size_t next_action_ = 0;
  std::map<Pair, Cursor> cursors_;
  Overlaps overlaps_;
};

// A link's settings after an action that changes them; `base` are those without a timeline. None if
// the action changes none.
std::optional<LinkProfile> changed_profile(const Action& action, const LinkProfile& now,
                                           const LinkProfile& base);

}  // namespace causeway::wan_sim
