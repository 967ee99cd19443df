// Regular expressions over UTF-8 text, as tokenizers are described with: PCRE2, with Unicode's
// classes. White space (\s) is Unicode's White_Space, as Oniguruma has it, for which these patterns
// were written.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace causeway::intra {

class UnicodeRegex {
 public:
  enum class Syntax { regex, literal };
  // Throws std::invalid_argument saying what is wrong with the pattern.
  explicit UnicodeRegex(const std::string& pattern, Syntax syntax = Syntax::regex);
  ~UnicodeRegex();
  UnicodeRegex(UnicodeRegex&&) noexcept;

  // Calls visit(std::string_view) for every match and for every stretch of text between two, in
  // order: together they are `text`, which must be valid UTF-8. Throws std::invalid_argument if the
  // pattern needs too much work on it.
  template <typename Visit>
  void split(std::string_view text, Visit&& visit) const {
    std::size_t done = 0;
    while (const auto match = find(text, done)) {
      if (match->begin > done) visit(text.substr(done, match->begin - done));
      visit(text.substr(match->begin, match->end - match->begin));
      done = match->end;
    }
    if (done < text.size()) visit(text.substr(done));
  }

  // Where `text` stops being UTF-8; nothing if it is all of it.
  static std::optional<std::size_t> first_not_utf8(std::string_view text);

 private:
  struct Match {
    std::size_t begin, end;  // not empty
  };
  class Code;

  std::optional<Match> find(std::string_view text, std::size_t from) const;

  std::unique_ptr<Code> code_;
};

}  // namespace causeway::intra
