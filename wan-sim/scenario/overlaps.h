// What holds while timed events overlap: an event that ends takes back what it did, and nothing
// that another event or the file still wants. Pure.
//
//   a trace's or an untimed event's value < the timed event that began last
//
// An untimed event and `heal` are the last word: timed events that began before them change nothing
// any more on those links.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "wan-sim/scenario/scenario.h"

namespace causeway::wan_sim {

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

}  // namespace causeway::wan_sim
