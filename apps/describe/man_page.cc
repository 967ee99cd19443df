#include "apps/describe/command.h"

namespace causeway::describe {
namespace {

// What roff would take for a request or an escape.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\n') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return !out.empty() && (out[0] == '.' || out[0] == '\'') ? "\\&" + out : out;
}

std::string option_text(const Option& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += (names.empty() ? "\\fB" : ", \\fB") + plain(name) + "\\fR";
  std::string choices;
  for (const std::string& choice : option.choices)
    choices += (choices.empty() ? "" : "|") + plain(choice);
  const std::string value = choices.empty() ? plain(option.type) : choices;
  const bool shown = !option.type.empty() && !option.positional;
  return ".TP\n" + names + (shown ? " \\fI" + value + "\\fR" : "") + "\n" + plain(option.meaning) +
         "\n";
}

std::string usage(const Command& command) {
  std::string line = ".B " + plain(command.path) + "\n";
  if (!command.subcommands.empty()) return line + ".I COMMAND\n[OPTIONS]\n";
  line += "[OPTIONS]\n";
  for (const Option& option : command.options) {
    if (option.positional) line += ".I " + plain(option.names.front()) + "\n";
  }
  return line;
}

constexpr char kExitStatus[] = R"(.SH EXIT STATUS
.TP
0
done
.TP
1
unexpected error
.TP
2
wrong usage, configuration or input
.TP
3
a peer or link failed for good, or a check failed
.TP
4
state is missing, damaged or of another run
.TP
5
a disk is full
.TP
130
interrupted; the state is saved
.SH SEE ALSO
The documentation in /usr/share/doc/causeway, README.md first.
)";

}  // namespace

std::string man_page(const std::vector<Command>& all, const std::string& version) {
  const Command& program = all.front();
  std::string out = ".TH CAUSEWAY 1 \"\" \"causeway " + plain(version) +
                    "\" \"User commands\"\n.SH NAME\n" + plain(program.path) +
                    " \\- train one model across regions that are far apart\n.SH SYNOPSIS\n" +
                    usage(program) + ".SH OPTIONS OF EVERY COMMAND\n";
  for (const Option& option : program.options) out += option_text(option);
  out += ".SH COMMANDS\n";
  for (const Command& command : all) {
    if (command.path == program.path) continue;
    out +=
        ".SS " + plain(command.path) + "\n" + plain(command.meaning) + ".\n.PP\n" + usage(command);
    for (const Option& option : command.options) out += option_text(option);
  }
  return out + kExitStatus;
}

}  // namespace causeway::describe
