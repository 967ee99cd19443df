// causeway init: a configuration to begin with. causeway config: what a configuration says when all
// is filled in, or the reference of all keys.
#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "apps/commands.h"
#include "apps/flags.h"
#include "apps/run/config/config.h"
#include "apps/run/config/starter.h"
#include "apps/run/learning/recipe.h"
#include "diloco/files/file_io.h"

namespace causeway::apps {
namespace {

namespace fs = std::filesystem;
using run::StarterTrainer;

const std::map<std::string, StarterTrainer> kTrainers{{"pytorch", StarterTrainer::pytorch},
                                                      {"own", StarterTrainer::own},
                                                      {"builtin", StarterTrainer::built_in}};

[[noreturn]] void refuse_to_overwrite(const fs::path& file) {
  throw run::ConfigError(file.string() +
                         " exists already, and is left as it is; give another FILE, or move it");
}

// Never in the place of another file, whoever makes one at the same time.
void write_new(const fs::path& file, std::string_view text) {
  const diloco::Descriptor out(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (out.get() < 0 && errno == EEXIST) refuse_to_overwrite(file);
  if (out.get() < 0) {
    throw run::ConfigError(file.string() + ": cannot be written (" +
                           std::generic_category().message(errno) +
                           "); name a file in a directory that is there");
  }
  diloco::write_all(out.get(), std::as_bytes(std::span(text)), file);
}

void init(const fs::path& file, StarterTrainer trainer) {
  const fs::path wan = fs::path(file).replace_extension(".wan.toml");
  const std::string text = run::starter_config(trainer, file, wan);
  for (const fs::path& one : {file, wan}) {
    if (fs::exists(one)) refuse_to_overwrite(one);
  }
  write_new(wan, run::starter_wan());
  write_new(file, text);
  std::cout << "Wrote " << file.string() << ", and " << wan.string()
            << " with a WAN to try it over. Next:\n";
  if (trainer == StarterTrainer::built_in)
    std::cout << "  put texts into data/, or name yours in data.files of " << file.string() << "\n";
  std::cout << "  " << run::starter_command(trainer, file) << "\n";
}

}  // namespace

void add_init(CLI::App& app, int&) {
  struct Flags {
    fs::path file = "causeway.toml";
    std::string trainer = "builtin";
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("init", "Write a configuration to begin with");
  command->add_option("FILE", flags->file, "File to write; the file of the WAN goes beside it")
      ->capture_default_str();
  command
      ->add_option(
          "--trainer", flags->trainer,
          "builtin: the model that is built in. pytorch: my PyTorch script. own: a trainer "
          "of mine in another language")
      ->check(CLI::IsMember(kTrainers))
      ->capture_default_str();
  command->callback([flags] { init(flags->file, kTrainers.at(flags->trainer)); });
}

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
    if (flags->file.empty()) {
      std::cout << run::reference_markdown();
      return;
    }
    const run::Config config = run::load_config(flags->file, flags->overrides);
    std::cout << run::to_toml(config);
    for (const std::string& concern : run::concerns(config))
      std::cerr << "WARNING: " << concern << "\n";
  });
}

}  // namespace causeway::apps
