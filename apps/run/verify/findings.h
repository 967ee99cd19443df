// What an audit comes to, line by line, while it goes on.
#pragma once

#include <string>
#include <utility>

#include "apps/run/verify/verify.h"

namespace causeway::run {

class Findings {
 public:
  void say(const std::string& line) { result_.lines.push_back(line); }
  // Two things that cannot both be as they are.
  void differ(const std::string& line) {
    result_.same = false;
    say(line);
  }
  // Something that should be there, or be signed, and is not.
  void lack(const std::string& line) {
    result_.complete = false;
    say("MISSING: " + line);
  }
  void cover(const std::string& what, const std::string& how) {
    result_.covered.push_back(what + ": " + how);
  }
  Verification take() { return std::move(result_); }

 private:
  Verification result_;
};

// "1 version", "2 versions"
inline std::string count(std::size_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

}  // namespace causeway::run
