#include <system_error>

#include "wan-sim/base/error.h"
#include "wan-sim/relay/relay_core.h"

namespace causeway::wan_sim {

void Relay::Core::begin_timeline() {
  arm_timeline();
}

void Relay::Core::arm_timeline() {
  const auto next = timeline_.next();
  if (!next) return;
  timeline_timer_.expires_at(std::chrono::steady_clock::time_point(begun_ + *next));
  timeline_timer_.async_wait([weak = weak_from_this()](std::error_code cancelled) {
    const auto self = weak.lock();
    if (!self || cancelled || self->stopped_) return;
    for (const TimedAction& due : self->timeline_.take(Link::now() - self->begun_)) {
      self->act(due.action, self->begun_ + due.at);
    }
    self->arm_timeline();
  });
}

void Relay::Core::command(const std::string& line) {
  const auto actions = parse_action(scenario_, line);
  const Time now = Link::now();
  for (const TimedAction& action : actions) {
    if (std::holds_alternative<ProcessAction>(action.action.what) && !options_.on_process) {
      throw std::system_error(Errc::bad_scenario,
                              "wan-sim runs no processes of regions; only causeway simulate can "
                              "kill, pause or restart them");
    }
  }
  tell(RelayEvent::Kind::commanded, {}, 0, line);
  for (const TimedAction& action : actions) {
    timeline_.add({action.at + (now - begun_), action.action, action.span});
  }
  for (const TimedAction& due : timeline_.take(now - begun_)) act(due.action, begun_ + due.at);
  arm_timeline();
}

void Relay::Core::act(const Action& action, Time at) {
  for (const Pair& pair : action.links) link(pair);  // refused as a whole, or done
  if (!action.text.empty()) tell(RelayEvent::Kind::acted, {}, 0, action.text);
  if (const auto* fault = std::get_if<Fault>(&action.what)) {
    return apply_fault(*fault, action.links, at);
  }
  if (const auto* healed = std::get_if<Heal>(&action.what)) return heal(*healed, action.links, at);
  if (const auto* process = std::get_if<ProcessAction>(&action.what)) {
    if (options_.on_process) return options_.on_process(*process);
    throw std::system_error(Errc::bad_scenario,
                            "wan-sim runs no processes of regions; only causeway simulate can "
                            "kill, pause or restart them");
  }
  for (const Pair& pair : action.links) {
    const auto profile = changed_profile(action, link(pair)->profile(), scenario_.links.at(pair));
    change(pair, *profile, at);
  }
}

void Relay::Core::change(const Pair& pair, const LinkProfile& profile, Time at) {
  link(pair)->change(profile, at);
  const auto back = links_.find({pair.second, pair.first});
  if (back != links_.end()) back->second->set_return_delay(profile.delay);
}

void Relay::Core::apply_fault(const Fault& fault, const std::vector<Pair>& pairs, Time at) {
  if (fault.kind == FaultKind::reset) return reset_connections({pairs.begin(), pairs.end()});
  for (const Pair& pair : pairs) {
    Link& target = *link(pair);
    switch (fault.kind) {
      case FaultKind::black_hole:
        target.black_hole(true, at);
        break;
      case FaultKind::stall:
        target.stall(at, fault.length);
        break;
      case FaultKind::refuse:
        refused_.insert(pair);
        break;
      case FaultKind::slow_close:
        target.faults().slow_close = fault.length;
        break;
      case FaultKind::corrupt:
        target.faults().corrupt_from(fault.bytes);
        break;
      case FaultKind::kill_after:
        target.faults().kill_after(fault.bytes);
        break;
      case FaultKind::reset:
        break;
    }
  }
}

void Relay::Core::heal(const Heal& healed, const std::vector<Pair>& pairs, Time at) {
  const auto ends = [&](FaultKind kind) { return !healed.kind || healed.kind == kind; };
  for (const Pair& pair : pairs) {
    Link& target = *link(pair);
    if (ends(FaultKind::black_hole)) target.black_hole(false, at);
    if (ends(FaultKind::slow_close)) target.faults().slow_close = Time{0};
    if (ends(FaultKind::refuse)) refused_.erase(pair);
  }
}

}  // namespace causeway::wan_sim
