// What is due when: a scenario's timeline and its traces, merged. Pure.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "wan-sim/base/chance.h"
#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

// From what chance is drawn, the same in every engine.
inline std::uint64_t key_of_link(std::uint64_t seed, const Pair& pair) {
  return mix(mix(seed, key_of(pair.first)), key_of(pair.second));
}
// Of a connection as dialled, numbered from 1 on its link.
inline std::uint64_t key_of_connection(std::uint64_t seed, const Pair& pair, std::uint64_t number) {
  return mix(key_of_link(seed, pair), number);
}
inline std::uint64_t key_of_flow(std::uint64_t connection, bool forward) {
  return mix(connection, forward ? 0 : 1);
}

// What holds while timed events overlap: an event that ends takes back what it did, and nothing
// that another event or the file still wants. Pure.
//
//   a trace's or an untimed event's value < the timed event that began last
//
// An untimed event and `heal` are the last word: timed events that began before them change nothing
// any more on those links.
class Overlaps {
 public:
  // What is to be carried out for an event's action, or its end: nothing to much, in order.
  std::vector<Action> on_event(const TimedAction& event);
  // For a step of the trace of one link. Settings that a timed event holds wait for its end.
  std::optional<Action> on_trace_step(const Action& step);

 private:
  using Span = decltype(TimedAction::span);
  struct Layer {
    Span span;     // none: it lasts until healed, as an untimed fault does
    double value;  // of a setting in its unit; of a fault: its length in ns
  };
  struct Layers {
    std::optional<double> standing;  // below all layers; settings only
    std::vector<Layer> layers;       // the last one holds
  };
  // A setting by its key, or a fault by its name.
  using Place = std::pair<Pair, std::string_view>;
  struct Hold {  // of processes, by kill or pause
    Span span;
    ProcessAction action;
  };

  void begin(const Pair& link, std::string_view what, const Layer& layer);
  // True if it was the one that held.
  bool end(const Pair& link, std::string_view what, const Span& span);
  void set(const Action& action, const Settings& settings, const Span& span);
  void hurt(const Action& action, const Fault& fault, const Span& span);
  std::vector<Action> restored(const Action& action, const Restore& restore, const Span& span);
  std::vector<Action> healed(const Action& action, const Heal& heal, const Span& span);
  std::vector<Action> on_process(Action action, const ProcessAction& process, const Span& span);
  void freed(const ProcessAction& process);

  std::map<Place, Layers> places_;
  std::vector<Hold> holds_;
};

class Timeline {
 public:
  explicit Timeline(const Scenario& scenario);

  // More to come, at a time that is not over.
  void add(const TimedAction& action);
  // What a command says, from now on.
  void add(const std::vector<TimedAction>& commanded, Time now);

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
