// causeway protocol-states: where tests kill coordinators and workers.
#include <iostream>

#include "apps/commands.h"
#include "diloco/files/fault_point.h"

namespace causeway::apps {

void add_protocol_states(CLI::App& app, int&) {
  if (!diloco::kFaultInjection) return;
  app.add_subcommand("protocol-states",
                     "Print the name, occurrence and meaning of every protocol state")
      ->group("")  // for tests, not for users
      ->callback([] {
        for (const diloco::NamedState& state : diloco::protocol_states()) {
          std::cout << state.name << "\t" << state.occurs << "\t" << state.meaning << "\n";
        }
      });
}

}  // namespace causeway::apps
