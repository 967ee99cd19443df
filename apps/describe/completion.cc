#include "apps/describe/completion.h"

#include <algorithm>

namespace causeway::describe {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  for (const Option& option : command.options) {
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

// In single quotes, for a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// A value's choices, by "path option".
std::string choices_cases(const std::vector<Command>& all) {
  std::string cases;
  for (const Command& command : all) {
    for (const Option& option : command.options) {
      if (option.choices.empty() || option.positional) continue;
      for (const std::string& name : option.names)
        cases += "    " + quoted(command.path + " " + name) +
                 ") words=" + quoted(joined(option.choices)) + " ;;\n";
    }
  }
  return cases;
}

std::string choices_of_positional(const Command& command) {
  for (const Option& option : command.options) {
    if (option.positional && !option.choices.empty()) return joined(option.choices);
  }
  return "";
}

}  // namespace

std::string bash_completion(const std::vector<Command>& all) {
  std::string paths, words;
  for (const Command& command : all) {
    if (command.path != all.front().path)
      paths += (paths.empty() ? "" : "|") + quoted(command.path);
    const std::string after = joined(command.subcommands) + choices_of_positional(command);
    words += "    " + quoted(command.path) + ") words=" + quoted(after) +
             " options=" + quoted(joined(option_names(command))) + " ;;\n";
  }
  const std::string program = all.front().path;
  return "# Completion of " + program + " for bash, made by `" + program + " completion bash`.\n_" +
         program +
         "() {\n"
         "  local word path=" +
         program +
         " words='' options='' current=\"${COMP_WORDS[COMP_CWORD]}\"\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case \"$path $word\" in\n      " +
         paths +
         ") path=\"$path $word\" ;;\n    esac\n  done\n"
         "  case \"$path\" in\n" +
         words +
         "  esac\n"
         "  [[ $current != -* ]] || words=$options\n"
         "  case \"$path ${COMP_WORDS[COMP_CWORD-1]}\" in\n" +
         choices_cases(all) +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n"
         "complete -o default -F _" +
         program + " " + program + "\n";
}

std::string zsh_completion(const std::vector<Command>& all) {
  return "#compdef " + all.front().path + "\nautoload -U +X bashcompinit && bashcompinit\n" +
         bash_completion(all);
}

std::string fish_completion(const std::vector<Command>& all) {
  const std::string program = all.front().path;
  std::string out =
      "# Completion of " + program + " for fish, made by `" + program + " completion fish`.\n";
  for (const Command& command : all) {
    // Of nested commands fish is asked for the last word alone.
    const bool top = command.path == program;
    const std::string last = command.path.substr(command.path.rfind(' ') + 1);
    const std::string when = top ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + last;
    const std::string begin = "complete -c " + program + " -n " + quoted(when);
    for (const std::string& name : command.subcommands) {
      const auto below = std::ranges::find(all, command.path + " " + name, &Command::path);
      out += begin + " -a " + quoted(name) + " -d " + quoted(below->meaning) + "\n";
    }
    for (const Option& option : command.options) {
      if (option.positional) {
        if (!option.choices.empty()) out += begin + " -a " + quoted(joined(option.choices)) + "\n";
        continue;
      }
      out += begin;
      for (const std::string& name : option.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.type.empty())
        out += option.choices.empty() ? " -r" : " -x -a " + quoted(joined(option.choices));
      out += " -d " + quoted(option.meaning) + "\n";
    }
  }
  return out;
}

}  // namespace causeway::describe
