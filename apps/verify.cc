// causeway verify: whether regions ran the same history.
#include <filesystem>
#include <iostream>
#include <memory>
#include <vector>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/verify/verify.h"

namespace causeway::apps {

void add_verify(CLI::App& app, int& exit_code) {
  struct Flags {
    std::vector<std::filesystem::path> paths;
    std::filesystem::path certificates;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "verify", "Compare regions: ledgers, states after every round, payloads, snapshots, models");
  add_directories(*command, flags->paths);
  add_signers(*command, flags->certificates);
  command->callback([flags, &exit_code] {
    const run::Verification result = run::verify(flags->paths, flags->certificates);
    for (const std::string& line : result.lines) std::cout << line << "\n";
    std::cout << "covered:\n";
    for (const std::string& line : result.covered) std::cout << "  " << line << "\n";
    std::cout << (!result.same       ? "NOT the same history"
                  : !result.all_read ? "NOT verified: nothing contradicts, but see UNREAD above"
                  : result.complete  ? "verified: one history"
                                     : "NOT verified: nothing contradicts, but see MISSING above")
              << "\n";
    const bool unread_alone = result.same && !result.all_read;
    exit_code = result.verified() ? 0 : unread_alone ? 1 : 4;
  });
}

}  // namespace causeway::apps
