// causeway simulate: a whole run on this host.
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/config/config.h"
#include "apps/run/simulate/simulation.h"

namespace causeway::apps {

void add_simulate(CLI::App& app, int& exit_code) {
  struct Flags {
    run::SimulateOptions options;
    std::string wan = "relay";
    bool no_baseline = false;
  };
  auto flags = std::make_shared<Flags>();
  run::SimulateOptions& options = flags->options;
  CLI::App* command = app.add_subcommand(
      "simulate", "Run all regions of a configuration on this host, over a simulated WAN");
  command->add_option("CONFIG", options.config, "The run's configuration file")->required();
  command
      ->add_option("--wan", flags->wan,
                   "relay: shape the links as wan.profile says; packet: the same with the "
                   "kernel's own TCP between network namespaces (root, or user namespaces); "
                   "none: plain loopback")
      ->check(CLI::IsMember({"relay", "none", "packet"}))
      ->capture_default_str();
  command->add_option("--out", options.out, "Run directory (default: runs/NAME-TIME)");
  add_set_option(*command, options.overrides);
  command
      ->add_option("--worker", options.worker,
                   "Command line of your own training program, started once for each region with "
                   "CAUSEWAY_REGION and CAUSEWAY_DIRECTORY in its environment (docs/worker-api.md)")
      ->type_name("COMMAND");
  command->add_flag("--no-baseline", flags->no_baseline,
                    "Skip the fully synchronous run that the result is compared with");
  command->add_flag("--resume", options.resume, "Continue the run in --out");
  command
      ->add_option("--sample-tokens", options.sample_tokens,
                   "Tokens of text that the trained model writes at the end; 0: none")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  command->callback([flags, &exit_code] {
    if (flags->options.resume && flags->options.out.empty()) {
      throw run::ConfigError("--resume: needs --out, the directory of the run to go on with");
    }
    flags->options.wan = flags->wan == "relay"    ? run::WanEngine::relay
                         : flags->wan == "packet" ? run::WanEngine::packet
                                                  : run::WanEngine::none;
    flags->options.baseline = !flags->no_baseline;
    exit_code = run::simulate(flags->options);
  });
}

}  // namespace causeway::apps
