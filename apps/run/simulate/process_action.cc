#include "apps/run/simulate/process_action.h"

#include <algorithm>
#include <csignal>

#include "wan-sim/scenario/scenario.h"

namespace causeway::run {
namespace {

using wan_sim::ProcessRole;
using wan_sim::ProcessVerb;

// What its labels begin with; those of workers without a rank end in a space.
std::string beginning(const std::string& name, const wan_sim::ProcessTarget& target) {
  const std::string region = name + " ";
  switch (target.role) {
    case ProcessRole::any:
      return region;
    case ProcessRole::coordinator:
      return region + "coordinator";
    case ProcessRole::worker:
      return region + "worker " + (target.rank ? std::to_string(*target.rank) : "");
  }
  return region;
}

bool names(const std::string& region, const wan_sim::ProcessTarget& target,
           const std::string& label) {
  const std::string wanted = beginning(region, target);
  return wanted.back() == ' ' ? label.starts_with(wanted) : label == wanted;
}

}  // namespace

bool concerns(const wan_sim::ProcessAction& action, const std::string& label) {
  return names(action.region, action.target, label) &&
         std::ranges::none_of(action.spared, [&](const wan_sim::ProcessTarget& spared) {
           return names(action.region, spared, label);
         });
}

void carry_out(const wan_sim::ProcessAction& action, Supervisor& supervisor) {
  const auto chosen = [&action](const Supervised& process) {
    return concerns(action, process.label);
  };
  switch (action.verb) {
    case ProcessVerb::kill:
      return supervisor.hold_down(chosen);
    case ProcessVerb::restart:
      return supervisor.restart(chosen);
    case ProcessVerb::pause:
      return supervisor.send_signal(chosen, SIGSTOP);
    case ProcessVerb::resume:
      return supervisor.send_signal(chosen, SIGCONT);
  }
}

std::string to_string(const wan_sim::ProcessAction& action) {
  std::string text(wan_sim::kProcessVerbs[static_cast<std::size_t>(action.verb)]);
  text += " " + beginning(action.region, action.target);
  if (text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace causeway::run
