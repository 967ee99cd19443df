#include "wan-sim/scenario/timeline.h"

#include <algorithm>

namespace causeway::wan_sim {

Timeline::Timeline(const Scenario& scenario) : actions_(scenario.timeline) {
  for (const auto& [pair, trace] : scenario.traces) cursors_[pair].trace = trace;
}

void Timeline::add(const TimedAction& action) {
  const auto place =
      std::upper_bound(actions_.begin() + static_cast<std::ptrdiff_t>(next_action_), actions_.end(),
                       action.at, [](Time at, const TimedAction& other) { return at < other.at; });
  actions_.insert(place, action);
}

std::optional<Time> Timeline::next() const {
  std::optional<Time> next;
  if (next_action_ < actions_.size()) next = actions_[next_action_].at;
  for (const auto& [pair, cursor] : cursors_) {
    next = next ? std::min(*next, cursor.at()) : cursor.at();
  }
  return next;
}

Action Timeline::take_step(const Pair& pair, Cursor& cursor) {
  Action action{{pair}, cursor.trace.steps[cursor.step].settings, ""};
  if (++cursor.step == cursor.trace.steps.size()) {
    cursor.step = 0;
    cursor.begin += cursor.trace.length;
  }
  return action;
}

Timeline::Cursor* Timeline::first_cursor(const Pair*& pair) {
  Cursor* first = nullptr;
  for (auto& [each, cursor] : cursors_) {
    if (first && first->at() <= cursor.at()) continue;
    first = &cursor;
    pair = &each;
  }
  return first;
}

std::vector<TimedAction> Timeline::take(Time now) {
  std::vector<TimedAction> due;
  for (auto next_at = next(); next_at && *next_at <= now; next_at = next()) {
    const Pair* pair = nullptr;
    Cursor* cursor = first_cursor(pair);
    const bool step = cursor && cursor->at() == *next_at;
    if (step) {
      const auto action = overlaps_.on_trace_step(take_step(*pair, *cursor));
      if (action) due.push_back({*next_at, *action});
      continue;
    }
    for (Action& action : overlaps_.on_event(actions_[next_action_++])) {
      due.push_back({*next_at, std::move(action)});
    }
  }
  return due;
}

std::optional<LinkProfile> changed_profile(const Action& action, const LinkProfile& now,
                                           const LinkProfile& base) {
  LinkProfile profile = now;
  if (const auto* settings = std::get_if<Settings>(&action.what)) {
    apply(*settings, profile);
  } else if (const auto* back = std::get_if<Restore>(&action.what)) {
    restore(back->keys, base, profile);
  } else {
    return std::nullopt;
  }
  return profile;
}

}  // namespace causeway::wan_sim
