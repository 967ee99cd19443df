#include "wan-sim/virtual/virtual_wan.h"

#include <algorithm>
#include <utility>

#include "wan-sim/base/error.h"

namespace causeway::wan_sim {
namespace {

Engine engine_of(VirtualMode mode) {
  return mode == VirtualMode::chunks ? Engine::virtual_chunks : Engine::virtual_fluid;
}

}  // namespace

VirtualWan::VirtualWan(Scenario scenario, VirtualOptions options)
    : scenario_(std::move(scenario)), options_(std::move(options)), timeline_(scenario_) {
  require_honoured(scenario_, engine_of(options_.mode));
  if (!options_.on_process) refuse_process_actions(scenario_);
  network_ = options_.mode == VirtualMode::chunks ? make_chunk_network(scenario_)
                                                  : make_fluid_network(scenario_);
  arm_timeline();
}

VirtualWan::~VirtualWan() = default;

void VirtualWan::at(Time time, std::function<void()> event) {
  events_heap_.push_back({std::max(time, now_), next_sequence_++, std::move(event)});
  std::push_heap(events_heap_.begin(), events_heap_.end(), std::greater<>());
}

bool VirtualWan::step(Time limit) {
  const Time network = network_->next_event();
  const Time event = events_heap_.empty() ? kNever : events_heap_.front().at;
  const Time next = std::min(network, event);
  if (next > limit || next >= kNever) return false;
  now_ = std::max(now_, next);
  ++events_;
  if (event <= network) {
    std::pop_heap(events_heap_.begin(), events_heap_.end(), std::greater<>());
    const auto run = std::move(events_heap_.back().run);
    events_heap_.pop_back();
    run();
  } else {
    network_->advance(now_);
  }
  return true;
}

void VirtualWan::run_until(Time limit) {
  while (step(limit)) {
  }
  now_ = std::max(now_, limit);
}

void VirtualWan::log(const std::string& line) {
  if (options_.log) *options_.log << now_.count() << ' ' << line << '\n';
}

void VirtualWan::observe_actions(std::function<void(const Action&)> observer) {
  observers_.push_back(std::move(observer));
}

void VirtualWan::arm_timeline() {
  const auto next = timeline_.next();
  if (!next) return;
  at(*next, [this] {
    for (const TimedAction& due : timeline_.take(now_)) act(due.action);
    arm_timeline();
  });
}

void VirtualWan::act(const Action& action) {
  if (!action.text.empty()) log("event " + action.text);
  if (const auto* process = std::get_if<ProcessAction>(&action.what)) {
    if (options_.on_process) options_.on_process(*process);
  } else {
    apply(action);
  }
  for (const auto& observer : observers_) observer(action);
}

void VirtualWan::apply(const Action& action) {
  const auto* fault = std::get_if<Fault>(&action.what);
  const auto* heal = std::get_if<Heal>(&action.what);
  const auto ends = [&](FaultKind kind) { return heal && (!heal->kind || heal->kind == kind); };
  for (const Pair& pair : action.links) {
    if (fault && fault->kind == FaultKind::black_hole) network_->black_hole(pair, true, now_);
    if (fault && fault->kind == FaultKind::stall) network_->stall(pair, fault->length, now_);
    if (fault && fault->kind == FaultKind::refuse) refused_.insert(pair);
    if (ends(FaultKind::black_hole)) network_->black_hole(pair, false, now_);
    if (ends(FaultKind::refuse)) refused_.erase(pair);
    const auto profile = changed_profile(action, network_->profile(pair), scenario_.links.at(pair));
    if (profile) network_->change(pair, *profile, now_);
  }
}

}  // namespace causeway::wan_sim
