// causeway ledger: what a run decided, in words.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/verify/ledger_lines.h"

namespace causeway::apps {
namespace {

struct LedgerFlags {
  std::vector<std::filesystem::path> paths;
  std::optional<diloco::Round> round;
  bool json = false;
};

int show_ledger(const LedgerFlags& flags) {
  const std::vector<run::RegionLedger> ledgers = run::read_region_ledgers(flags.paths);
  const run::RegionLedger& longest = *std::ranges::max_element(
      ledgers, {}, [](const run::RegionLedger& ledger) { return ledger.entries.size(); });
  const run::ReportedNorms norms = run::reported_norms(ledgers);
  if (flags.json) {
    std::cout << run::ledger_json(longest, norms, flags.round) << "\n";
    return 0;
  }
  const std::vector<std::string> lines = run::ledger_lines(longest, norms, flags.round);
  std::cout << "run " << longest.run_id << ", as " << longest.name << " has it\n";
  for (const std::string& line : lines) std::cout << line << "\n";
  return 0;
}

}  // namespace

void add_ledger(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<LedgerFlags>();
  CLI::App* command = app.add_subcommand(
      "ledger", "Show what a run decided: contributions, weights, elections, members");
  add_directories(*command, flags->paths);
  command->add_option("--round", flags->round, "Show only this round, with all details")
      ->check(number_from(0, kCountMax));
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, &exit_code] { exit_code = show_ledger(*flags); });
}

}  // namespace causeway::apps
