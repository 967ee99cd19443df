// causeway config: shows the resolved configuration, or the reference of all keys.
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"
#include "apps/run/config/config.h"
#include "apps/set_option.h"

namespace causeway::apps {

void add_config(CLI::App& app, int&) {
  struct Flags {
    std::filesystem::path file;
    std::vector<std::string> overrides;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand(
      "config",
      "Check a configuration and print it with every default; without a file, describe all keys");
  command->add_option("CONFIG", flags->file, "The run's configuration file");
  add_set_option(*command, flags->overrides);
  command->callback([flags] {
    std::cout << (flags->file.empty()
                      ? run::reference_markdown()
                      : run::to_toml(run::load_config(flags->file, flags->overrides)));
  });
}

}  // namespace causeway::apps
