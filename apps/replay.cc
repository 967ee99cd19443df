// causeway replay: computes a run's states again from its ledger and payloads.
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/region/region_files.h"
#include "apps/run/replay/credit.h"
#include "apps/run/replay/proof_check.h"
#include "apps/run/replay/replay.h"
#include "apps/run/verify/region_ledger.h"

namespace causeway::apps {
namespace {

struct ReplayFlags {
  run::ReplayOptions options;
  std::vector<std::string> without, weights;
  bool credit = false, json = false, inner = false;
  double sample = 0.1;
  std::filesystem::path config;
  std::string rounds, seed;
};

// For `causeway report`; a run that lies where nothing can be written has it on the screen alone.
void keep_credit(const ReplayFlags& flags, const std::string& json) {
  const std::filesystem::path& directory = flags.options.paths.front();
  if (flags.options.paths.size() > 1 || !run::stands_for_all_regions(directory)) return;
  try {
    run::write_text_file(directory / run::kCreditFile, json + "\n");
  } catch (const std::system_error& error) {
    std::cerr << "not kept for `causeway report`: " << error.what() << "\n";
  }
}

int run_credit(const ReplayFlags& flags) {
  run::CreditOptions options{.paths = flags.options.paths,
                             .certificates = flags.options.certificates,
                             .overrides = flags.options.overrides,
                             .rounds = {}};
  if (!flags.rounds.empty()) options.rounds = run::parse_rounds(flags.rounds);
  const run::CreditTable table = run::credit(options);
  const std::string json = run::credit_json(table);
  keep_credit(flags, json);
  if (flags.json) {
    std::cout << json << "\n";
    return 0;
  }
  for (const std::string& line : run::credit_lines(table)) std::cout << line << "\n";
  return 0;
}

// Each line at once: what was found is not lost if the rest takes too long.
int run_inner(const ReplayFlags& flags) {
  const run::ProofCheck check =
      run::check_proofs({.paths = flags.options.paths,
                         .certificates = flags.options.certificates,
                         .config = flags.config,
                         .overrides = flags.options.overrides,
                         .sample = flags.sample,
                         .seed = flags.seed,
                         .say = [](const std::string& line) { std::cout << line << std::endl; }});
  if (check.differ > 0) return 4;
  return check.right() ? 0 : 3;
}

int run_replay(const ReplayFlags& flags) {
  if (flags.credit) return run_credit(flags);
  if (flags.inner) return run_inner(flags);
  run::ReplayOptions options = flags.options;
  for (const std::string& text : flags.without) options.changes.push_back(run::parse_without(text));
  for (const std::string& text : flags.weights) options.changes.push_back(run::parse_weight(text));
  if (options.loss && options.changes.empty())
    throw run::ConfigError(
        "--loss: compares the run with a changed one; say with --without or --weight what is "
        "changed");
  const run::Replay replay = run::replay(options);
  for (const std::string& line : replay.lines) std::cout << line << "\n";
  std::cout << (replay.right ? "replayed: the ledger's states" : "NOT the ledger's states") << "\n";
  return replay.right ? 0 : 4;
}

using Options = std::vector<CLI::Option*>;

// Which states, and what would have become of the run. Gives the options that these are for alone.
Options add_states(CLI::App& command, ReplayFlags& flags) {
  run::ReplayOptions& options = flags.options;
  Options own{
      command
          .add_option(
              "--from", options.from,
              "Begin with the newest kept state of this version or an earlier one (default: 0)")
          ->check(number_from(0, kCountMax)),
      command.add_option("--to", options.to, "Last version to compute (default: all)")
          ->check(number_from(0, kCountMax)),
      command.add_option("--model", options.model,
                         "Write the model of a version to this directory")};
  command
      .add_option("--version", options.model_version,
                  "With --model: which version (default: the last)")
      ->check(number_from(0, kCountMax))
      ->needs(own.back());
  own.push_back(add_repeated(
      command, "--without", flags.without,
      "REGION@ROUND: compare with a run in which this round does not list this region"));
  own.push_back(add_repeated(command, "--weight", flags.weights,
                             "REGION@ROUND=WEIGHT: compare with a run in which this region has "
                             "this weight in this round"));
  own.push_back(command.add_flag(
      "--loss", options.loss,
      "With --without or --weight: also measure the validation loss of both runs"));
  return own;
}

CLI::Option* add_credit(CLI::App& command, ReplayFlags& flags) {
  CLI::Option* credit = command.add_flag(
      "--credit", flags.credit,
      "Compute rounds again without each region in turn: what each was worth, by validation loss");
  command
      .add_option(
          "--rounds", flags.rounds,
          fmt::format("With --credit: which rounds (default: the newest {})", run::kCreditedRounds))
      ->type_name("FIRST-LAST")
      ->needs(credit);
  command.add_flag("--json", flags.json, "With --credit: print one JSON object")->needs(credit);
  return credit;
}

CLI::Option* add_inner(CLI::App& command, ReplayFlags& flags) {
  CLI::Option* inner =
      command.add_flag("--inner", flags.inner,
                       "Take inner steps of contributions again and compare them with their proofs "
                       "(ledger.prove_steps)");
  command
      .add_option("--sample", flags.sample,
                  "With --inner: about which share of the contributions to check, at least one of "
                  "each region; 1: all")
      ->check(number_from(1e-9, 1))
      ->type_name("PART")
      ->capture_default_str()
      ->needs(inner);
  command
      .add_option("--seed", flags.seed,
                  "With --inner: seed of the draw. The same seed and ledger give the same draw "
                  "(default: random)")
      ->type_name("TEXT")
      ->needs(inner);
  command
      .add_option("--config", flags.config,
                  "With --inner: the run's configuration (default: the one that is the same in two "
                  "or more regions)")
      ->type_name("FILE")
      ->needs(inner);
  return inner;
}

}  // namespace

void add_replay(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<ReplayFlags>();
  CLI::App* command = app.add_subcommand(
      "replay",
      "Compute a run's states again from its ledger and payloads (ledger.keep = \"all\")");
  add_directories(*command, flags->options.paths);
  const Options of_states = add_states(*command, *flags);
  CLI::Option* credit = add_credit(*command, *flags);
  CLI::Option* inner = add_inner(*command, *flags);
  for (CLI::Option* other : of_states) {
    credit->excludes(other);
    inner->excludes(other);
  }
  inner->excludes(credit);
  add_signers(*command, flags->options.certificates);
  add_set_option(*command, flags->options.overrides);
  command->callback([flags, &exit_code] { exit_code = run_replay(*flags); });
}

}  // namespace causeway::apps
