#include "wan-sim/scenario/timeline.h"

#include <algorithm>

namespace causeway::wan_sim {
namespace {

// Faults that something ends, by `heal` or for_s. A stall knows its own end, and the rest happen
// once.
constexpr FaultKind kHealed[] = {FaultKind::black_hole, FaultKind::refuse, FaultKind::slow_close};

std::string_view word_of(FaultKind kind) {
  return kFaults[static_cast<std::size_t>(kind)];
}

bool covers(const ProcessTarget& wide, const ProcessTarget& narrow) {
  if (wide.role == ProcessRole::any) return true;
  return wide.role == narrow.role && (!wide.rank || wide.rank == narrow.rank);
}

// An event's text is told once, and even if its end changes nothing.
std::vector<Action> told(const Action& action, std::vector<Action> parts) {
  if (parts.empty()) parts.push_back({{}, Restore{}, ""});
  parts.front().text = action.text;
  return parts;
}

}  // namespace

void Overlaps::begin(const Pair& link, std::string_view what, const Layer& layer) {
  places_[{link, what}].layers.push_back(layer);
}

bool Overlaps::end(const Pair& link, std::string_view what, const Span& span) {
  auto& layers = places_[{link, what}].layers;
  const auto ended = std::find_if(layers.begin(), layers.end(),
                                  [&](const Layer& layer) { return layer.span == span; });
  if (ended == layers.end()) return false;
  const bool held = std::next(ended) == layers.end();
  layers.erase(ended);
  return held;
}

void Overlaps::set(const Action& action, const Settings& settings, const Span& span) {
  for (const Pair& link : action.links) {
    for (const auto& [key, value] : settings) {
      if (span)
        begin(link, key, {span, value});
      else
        places_[{link, key}] = {value, {}};
    }
  }
}

void Overlaps::hurt(const Action& action, const Fault& fault, const Span& span) {
  if (std::ranges::count(kHealed, fault.kind) == 0) return;
  const Layer layer{span, static_cast<double>(fault.length.count())};
  for (const Pair& link : action.links) begin(link, word_of(fault.kind), layer);
}

std::vector<Action> Overlaps::restored(const Action& action, const Restore& restore,
                                       const Span& span) {
  std::vector<Action> parts;
  for (const Pair& link : action.links) {
    Restore to_file;
    Settings to_others;
    for (const std::string_view key : restore.keys) {
      if (!end(link, key, span)) continue;
      const auto& [standing, layers] = places_[{link, key}];
      if (!layers.empty())
        to_others[key] = layers.back().value;
      else if (standing)
        to_others[key] = *standing;
      else
        to_file.keys.push_back(key);
    }
    if (!to_file.keys.empty()) parts.push_back({{link}, to_file, ""});
    if (!to_others.empty()) parts.push_back({{link}, to_others, ""});
  }
  return told(action, std::move(parts));
}

std::vector<Action> Overlaps::healed(const Action& action, const Heal& heal, const Span& span) {
  if (!span) {
    for (const Pair& link : action.links) {
      for (const FaultKind kind : kHealed) places_.erase({link, word_of(kind)});
    }
    return {action};
  }
  std::vector<Action> parts;
  for (const Pair& link : action.links) {
    if (!end(link, word_of(*heal.kind), span)) continue;
    const auto& layers = places_[{link, word_of(*heal.kind)}].layers;
    if (layers.empty())
      parts.push_back({{link}, heal, ""});
    else
      parts.push_back(
          {{link}, Fault{*heal.kind, Time(static_cast<Time::rep>(layers.back().value))}, ""});
  }
  return told(action, std::move(parts));
}

// What holds them down lets go of these processes, and of no others.
void Overlaps::freed(const ProcessAction& process) {
  std::erase_if(holds_, [&](Hold& hold) {
    if (hold.action.region != process.region || undoing(hold.action.verb) != process.verb) {
      return false;
    }
    if (covers(process.target, hold.action.target)) return true;
    if (covers(hold.action.target, process.target)) hold.action.spared.push_back(process.target);
    return false;
  });
}

std::vector<Action> Overlaps::on_process(Action action, const ProcessAction& process,
                                         const Span& span) {
  if (undoing(process.verb)) {
    holds_.push_back({span, process});
    return {action};
  }
  if (!span) {
    freed(process);
    return {action};
  }
  const auto own = std::find_if(holds_.begin(), holds_.end(),
                                [&](const Hold& hold) { return hold.span == span; });
  if (own == holds_.end()) return told(action, {});
  ProcessAction ending = process;
  ending.spared = own->action.spared;
  holds_.erase(own);
  for (const auto& [_, other] : holds_) {
    if (other.region != process.region || undoing(other.verb) != process.verb) continue;
    const auto& spared = other.spared;
    const bool lets_go = std::ranges::any_of(
        spared, [&](const ProcessTarget& target) { return covers(target, process.target); });
    if (covers(other.target, process.target) && !lets_go) return told(action, {});
    if (covers(process.target, other.target)) ending.spared.push_back(other.target);
  }
  action.what = std::move(ending);
  return {action};
}

std::vector<Action> Overlaps::on_event(const TimedAction& event) {
  const auto& [at, action, span] = event;
  if (const auto* restore = std::get_if<Restore>(&action.what)) {
    return restored(action, *restore, span);
  }
  if (const auto* heal = std::get_if<Heal>(&action.what)) return healed(action, *heal, span);
  if (const auto* process = std::get_if<ProcessAction>(&action.what)) {
    return on_process(action, *process, span);
  }
  if (const auto* settings = std::get_if<Settings>(&action.what)) set(action, *settings, span);
  if (const auto* fault = std::get_if<Fault>(&action.what)) hurt(action, *fault, span);
  return {action};
}

std::optional<Action> Overlaps::on_trace_step(const Action& step) {
  Action action = step;
  auto& settings = std::get<Settings>(action.what);
  for (const Pair& link : step.links) {
    std::erase_if(settings, [&](const auto& setting) {
      auto& place = places_[{link, setting.first}];
      place.standing = setting.second;
      return !place.layers.empty();
    });
  }
  if (settings.empty()) return std::nullopt;
  return action;
}

Timeline::Timeline(const Scenario& scenario) : actions_(scenario.timeline) {
  for (const auto& [pair, trace] : scenario.traces) cursors_[pair].trace = trace;
}

void Timeline::add(const TimedAction& action) {
  const auto place =
      std::upper_bound(actions_.begin() + static_cast<std::ptrdiff_t>(next_action_), actions_.end(),
                       action.at, [](Time at, const TimedAction& other) { return at < other.at; });
  actions_.insert(place, action);
}

void Timeline::add(const std::vector<TimedAction>& commanded, Time now) {
  for (const TimedAction& action : commanded) add({action.at + now, action.action, action.span});
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
