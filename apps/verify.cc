// causeway verify: whether two regions ran the same history.
#include <filesystem>
#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "apps/run/verify/verify.h"

namespace causeway::apps {

void add_verify(CLI::App& app, int& exit_code) {
  struct Flags {
    std::filesystem::path a, b, certificates;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "verify", "Compare two regions: ledgers, states after every round, snapshots");
  command->add_option("RUN_A", flags->a, "A region's directory")->required();
  command->add_option("RUN_B", flags->b, "Another region's directory")->required();
  command->add_option("--certificates", flags->certificates,
                      "Directory made by `causeway certs`: check the ledgers' signatures too");
  command->callback([flags, &exit_code] {
    const run::Verification result = run::verify(flags->a, flags->b, flags->certificates);
    for (const std::string& line : result.lines) std::cout << line << "\n";
    std::cout << (result.same ? "verified: one history" : "NOT the same history") << "\n";
    exit_code = result.same ? 0 : 4;
  });
}

}  // namespace causeway::apps
