#include "apps/describe/command.h"

#include <algorithm>
#include <map>

namespace causeway::describe {
namespace {

std::string joined(const std::vector<std::string>& words, const std::string& between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// In single quotes, for a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::vector<std::string> option_names(const Command& command) {
  std::vector<std::string> names;
  for (const Option& option : command.options) {
    if (!option.positional) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::string choices_of_positional(const Command& command) {
  for (const Option& option : command.options) {
    if (option.positional && !option.choices.empty()) return joined(option.choices);
  }
  return "";
}

// Patterns of a `case` over "path word": those of commands that are below another one.
std::string paths_of(const std::vector<Command>& all) {
  std::vector<std::string> paths;
  for (const Command& command : all)
    if (command.path != all.front().path) paths.push_back(quoted(command.path));
  return joined(paths, "|");
}

// Branches of a `case` over "path option", one for each list of words: `before` WORDS `after`.
std::string value_cases(const std::vector<Command>& all, std::vector<std::string> Option::*words_of,
                        const std::string& before, const std::string& after) {
  std::map<std::string, std::vector<std::string>> options_with;
  for (const Command& command : all) {
    for (const Option& option : command.options) {
      if ((option.*words_of).empty() || option.positional) continue;
      for (const std::string& name : option.names)
        options_with[joined(option.*words_of)].push_back(quoted(command.path + " " + name));
    }
  }
  std::string cases;
  for (const auto& [words, options] : options_with)
    cases += "    " + joined(options, "|") + ") " + before + words + after + " ;;\n";
  return cases;
}

std::string header(const std::string& program, const std::string& shell) {
  return "# Completion of " + program + " for " + shell + ", made by `" + program + " completion " +
         shell + "`.\n";
}

}  // namespace

std::string bash_completion(const std::vector<Command>& all) {
  const std::string program = all.front().path;
  std::string words;
  for (const Command& command : all) {
    const std::string after = joined(command.subcommands) + choices_of_positional(command);
    words += "    " + quoted(command.path) + ") words=" + quoted(after) +
             " options=" + quoted(joined(option_names(command))) + " ;;\n";
  }
  return header(program, "bash") + "_" + program +
         "() {\n"
         "  local word path=" +
         program +
         " words='' options='' current=\"${COMP_WORDS[COMP_CWORD]}\" "
         "previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
         "    case \"$path $word\" in\n      " +
         paths_of(all) +
         ") path=\"$path $word\" ;;\n    esac\n  done\n"
         "  case \"$path\" in\n" +
         words +
         "  esac\n"
         "  [[ $current != -* ]] || words=$options\n"
         "  # --wan=relay is three words to bash.\n"
         "  if [[ $current == '=' ]]; then\n    current=''\n"
         "  elif [[ $previous == '=' ]]; then\n    previous=\"${COMP_WORDS[COMP_CWORD-2]}\"\n  fi\n"
         "  case \"$path $previous\" in\n" +
         value_cases(all, &Option::choices, "words='", "'") +
         value_cases(all, &Option::beginnings, "compopt -o nospace 2>/dev/null; words='", "'") +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n"
         "complete -o default -F _" +
         program + " " + program + "\n";
}

// What each command takes: a case of zsh for each, which sets `commands` and `options`.
std::string zsh_lists(const std::vector<Command>& all) {
  const auto described = [](const std::string& name, std::string meaning) {
    std::ranges::replace(meaning, '\n', ' ');
    return " " + quoted(name + ":" + meaning);
  };
  std::string lists;
  for (const Command& command : all) {
    std::string commands, options;
    for (const std::string& name : command.subcommands)
      commands += described(
          name, std::ranges::find(all, command.path + " " + name, &Command::path)->meaning);
    for (const Option& option : command.options) {
      for (const std::string& name : option.names)
        if (!option.positional) options += described(name, option.meaning);
    }
    lists += "    " + quoted(command.path) + ") commands=(" +
             (commands.empty() ? choices_of_positional(command) : commands.substr(1)) +
             ")\n      options=(" + (options.empty() ? "" : options.substr(1)) + ") ;;\n";
  }
  return lists;
}

// `path` and `words` are zsh's own. The file is run when it is first needed, from a directory of
// $fpath, or is sourced.
std::string zsh_completion(const std::vector<Command>& all) {
  const std::string program = all.front().path;
  return "#compdef " + program + "\n" + header(program, "zsh") + "_" + program +
         "() {\n"
         "  local word place=" +
         program +
         " previous=\"${words[CURRENT-1]}\"\n"
         "  local -a commands options values beginnings\n"
         "  for word in \"${(@)words[2,CURRENT-1]}\"; do\n"
         "    case \"$place $word\" in\n      " +
         paths_of(all) +
         ") place=\"$place $word\" ;;\n    esac\n  done\n"
         "  case \"$place\" in\n" +
         zsh_lists(all) +
         "  esac\n"
         "  # --wan=relay is one word to zsh.\n"
         "  if [[ $PREFIX == --*=* ]]; then\n    previous=\"${PREFIX%%=*}\"\n    compset -P 1 "
         "'*='\n  fi\n"
         "  case \"$place $previous\" in\n" +
         value_cases(all, &Option::choices, "values=(", ")") +
         value_cases(all, &Option::beginnings, "beginnings=(", ")") +
         "  esac\n"
         "  if (( $#values )); then\n    compadd -a values\n"
         "  elif (( $#beginnings )); then\n    compadd -S '' -a beginnings\n"
         "  elif [[ $PREFIX == -* ]]; then\n    _describe option options\n"
         "  elif (( $#commands )); then\n    _describe command commands\n"
         "  else\n    _files\n  fi\n}\n"
         "if [[ $funcstack[1] == _" +
         program + " ]]; then\n  _" + program + " \"$@\"\nelse\n  compdef _" + program + " " +
         program + "\nfi\n";
}

std::string fish_completion(const std::vector<Command>& all) {
  const std::string program = all.front().path;
  std::string out = header(program, "fish");
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
      // After "=" fish puts no space.
      const std::vector<std::string>& values =
          option.choices.empty() ? option.beginnings : option.choices;
      if (!option.type.empty()) out += values.empty() ? " -r" : " -x -a " + quoted(joined(values));
      out += " -d " + quoted(option.meaning) + "\n";
    }
  }
  return out;
}

}  // namespace causeway::describe
