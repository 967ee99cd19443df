// causeway replay: computes a run's states again from its ledger and payloads.
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/replay/replay.h"

namespace causeway::apps {
namespace {

struct ReplayFlags {
  run::ReplayOptions options;
  std::vector<std::string> without, weights;
};

int run_replay(const ReplayFlags& flags) {
  run::ReplayOptions options = flags.options;
  for (const std::string& text : flags.without) options.changes.push_back(run::parse_without(text));
  for (const std::string& text : flags.weights) options.changes.push_back(run::parse_weight(text));
  const run::Replay replay = run::replay(options);
  for (const std::string& line : replay.lines) std::cout << line << "\n";
  std::cout << (replay.right ? "replayed: the ledger's states" : "NOT the ledger's states") << "\n";
  return replay.right ? 0 : 4;
}

}  // namespace

void add_replay(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ReplayFlags>();
  run::ReplayOptions& options = flags->options;
  CLI::App* command = app.add_subcommand(
      "replay",
      "Compute a run's states again from its ledger and payloads (ledger.keep = \"all\")");
  command
      ->add_option("DIRECTORY", options.paths,
                   "Regions' directories, or a run's, which stands for all its regions")
      ->required();
  command->add_option("--from", options.from,
                      "Begin with the newest state kept that is of this version or before "
                      "(default: 0)");
  command->add_option("--to", options.to, "Last version to compute (default: all)");
  command->add_option("--model", options.model, "Write the model of a version to this directory");
  command->add_option("--version", options.model_version, "Which version (default: the last)");
  add_repeated(*command, "--without", flags->without,
               "REGION@ROUND: compare with the run in which that round did not list that region");
  add_repeated(*command, "--weight", flags->weights,
               "REGION@ROUND=WEIGHT: compare with the run in which it had this weight there");
  command->add_flag("--loss", options.loss, "Then measure the validation loss of both too");
  command->add_option("--certificates", options.certificates,
                      "Directory made by `causeway certs`, to check signatures with (default: "
                      "certificates/ of the run's directory)");
  add_set_option(*command, options.overrides);
  command->callback([flags, &exit_code] { exit_code = run_replay(*flags); });
}

}  // namespace causeway::apps
