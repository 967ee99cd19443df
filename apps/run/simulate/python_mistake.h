// Whether a Python program ends for the same mistake again and again. A signal or a lost host is a
// reason to start it again; an exception that comes twice at one place is none.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace causeway::run {

// The last exception in what a program printed that names a mistake of the program: "FILE, line 7:
// NameError: ...". None: there is none, or it only says that somebody else is gone.
std::optional<std::string> python_mistake(std::string_view printed);

// Of one process, over its lives.
class RepeatedMistake {
 public:
  // It ended by itself, and its log has what it printed. The mistake, if it ended the life before
  // it at the same place.
  std::optional<std::string> on_end(const std::filesystem::path& log);

 private:
  std::uintmax_t read_ = 0;  // bytes of the log, of earlier lives
  std::string last_;
};

}  // namespace causeway::run
