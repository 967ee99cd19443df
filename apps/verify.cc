// causeway verify: whether regions ran the same history.
#include <filesystem>
#include <iostream>
#include <memory>
#include <vector>

#include "apps/commands.h"
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
  command
      ->add_option("DIRECTORY", flags->paths,
                   "Directories of regions, or of a run: then all its regions")
      ->required();
  command->add_option("--certificates", flags->certificates,
                      "Directory made by `causeway certs`, to check signatures with (default: "
                      "certificates/ of the run's directory)");
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
