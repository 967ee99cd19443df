#include "apps/run/region/process_events.h"

#include <csignal>

#include "wan-sim/scenario/scenario.h"

namespace causeway::run {
namespace {

using wan_sim::ProcessRole;
using wan_sim::ProcessVerb;

// What its labels begin with; those of workers without a rank end in a space.
std::string beginning(const wan_sim::ProcessAction& action) {
  const std::string region = action.region + " ";
  switch (action.role) {
    case ProcessRole::any:
      return region;
    case ProcessRole::coordinator:
      return region + "coordinator";
    case ProcessRole::worker:
      return region + "worker " + (action.rank ? std::to_string(*action.rank) : "");
  }
  return region;
}

}  // namespace

bool concerns(const wan_sim::ProcessAction& action, const std::string& label) {
  const std::string wanted = beginning(action);
  return wanted.back() == ' ' ? label.starts_with(wanted) : label == wanted;
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
  text += " " + beginning(action);
  if (text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace causeway::run
