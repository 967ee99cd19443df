#include "apps/describe/command.h"

#include <iostream>
#include <memory>
#include <sstream>
#include <utility>

namespace causeway::describe {
namespace {

// Of "TEXT:{text,json}".
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t begin = type.find('{'), end = type.find('}');
  std::vector<std::string> choices;
  if (begin == std::string::npos || end == std::string::npos) return choices;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string one; std::getline(list, one, ',');) choices.push_back(one);
  return choices;
}

constexpr const char* kSettingType = "SECTION.KEY=VALUE";

Option option_of(const CLI::Option& option, const std::vector<std::string>& settings) {
  Option out{.meaning = option.get_description(), .positional = option.get_positional()};
  const bool takes_value = option.get_type_size_max() > 0;
  const std::string type = option.get_type_name();
  if (takes_value) out.type = type.substr(0, type.find(":{"));
  out.choices = choices_of(type);
  if (out.type == kSettingType) {
    for (const std::string& name : settings) out.beginnings.push_back(name + "=");
  }
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  if (out.positional) out.names = {option.get_name(true)};
  return out;
}

void add(const CLI::App& app, const std::string& before, const std::vector<std::string>& settings,
         std::vector<Command>& all) {
  Command command{.path = before + app.get_name(), .meaning = app.get_description()};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) command.options.push_back(option_of(*option, settings));
  }
  std::vector<const CLI::App*> below;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (one->get_group().empty()) continue;
    below.push_back(one);
    command.subcommands.push_back(one->get_name());
  }
  const std::string path = command.path + " ";
  all.push_back(std::move(command));
  for (const CLI::App* one : below) add(*one, path, settings, all);
}

}  // namespace

std::vector<Command> commands_of(const CLI::App& app, const std::vector<std::string>& settings) {
  std::vector<Command> all;
  add(app, "", settings, all);
  return all;
}

void add_describe(CLI::App& app, const std::string& version, std::vector<std::string> settings) {
  CLI::App* completion = app.add_subcommand(
      "completion", "Print the script that completes this program's commands in a shell");
  auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "Shell that the script is for")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback([&app, shell, settings = std::move(settings)] {
    const std::vector<Command> all = commands_of(app, settings);
    std::cout << (*shell == "bash"  ? bash_completion(all)
                  : *shell == "zsh" ? zsh_completion(all)
                                    : fish_completion(all));
  });
  app.add_subcommand("man-page", "Print the manual page of this program, for man(1)")
      ->callback([&app, version] { std::cout << man_page(commands_of(app, {}), version); });
}

}  // namespace causeway::describe
