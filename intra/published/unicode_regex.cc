#include "intra/published/unicode_regex.h"

#include <pcre2.h>

#include <cstdint>
#include <new>
#include <stdexcept>

namespace causeway::intra {
namespace {

std::string message_of(int error) {
  char text[256];
  const int length =
      pcre2_get_error_message(error, reinterpret_cast<unsigned char*>(text), sizeof text);
  return length > 0 ? std::string(text, static_cast<std::size_t>(length)) : "unknown error";
}

// PCRE2's own \s has one character more than Unicode's (U+180E).
std::string with_unicode_spaces(const std::string& pattern) {
  std::string out;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const bool escaped = pattern[i] == '\\' && i + 1 < pattern.size();
    if (!escaped) {
      out += pattern[i];
      continue;
    }
    const char letter = pattern[++i];
    if (letter == 's') {
      out += "\\p{White_Space}";
    } else if (letter == 'S') {
      out += "\\P{White_Space}";
    } else {
      out += {'\\', letter};
    }
  }
  return out;
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());
}

}  // namespace

// The compiled pattern, and room for the one match at a time.
class UnicodeRegex::Code {
 public:
  Code(const std::string& pattern, std::uint32_t options) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_ = pcre2_compile(units(pattern), pattern.size(), options, &error, &offset, nullptr);
    if (code_ == nullptr) {
      throw std::invalid_argument("the pattern '" + pattern + "' is wrong at character " +
                                  std::to_string(offset) + ": " + message_of(error));
    }
    pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);  // without it matching is slower, no more
    match_ = pcre2_match_data_create(1, nullptr);
    if (match_ == nullptr) {
      pcre2_code_free(code_);
      throw std::bad_alloc();
    }
  }
  ~Code() {
    pcre2_match_data_free(match_);
    pcre2_code_free(code_);
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  int match(std::string_view text, std::size_t from, std::uint32_t options) const {
    return pcre2_match(code_, units(text), text.size(), from, options, match_, nullptr);
  }
  std::size_t begin() const { return pcre2_get_ovector_pointer(match_)[0]; }
  std::size_t end() const { return pcre2_get_ovector_pointer(match_)[1]; }
  std::size_t stopped_at() const { return pcre2_get_startchar(match_); }

 private:
  pcre2_code* code_ = nullptr;
  pcre2_match_data* match_ = nullptr;
};

UnicodeRegex::UnicodeRegex(const std::string& pattern, Syntax syntax)
    : code_(syntax == Syntax::literal
                ? std::make_unique<Code>(pattern, PCRE2_UTF | PCRE2_LITERAL)
                : std::make_unique<Code>(with_unicode_spaces(pattern), PCRE2_UTF | PCRE2_UCP)) {}
UnicodeRegex::~UnicodeRegex() = default;
UnicodeRegex::UnicodeRegex(UnicodeRegex&&) noexcept = default;

std::optional<UnicodeRegex::Match> UnicodeRegex::find(std::string_view text,
                                                      std::size_t from) const {
  // Checking would read the whole text again for every match.
  const int result = code_->match(text, from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw std::invalid_argument("cannot be split into words at byte " + std::to_string(from) +
                                ": " + message_of(result));
  }
  // \K in a lookaround may end a match before it begins.
  if (code_->begin() < from || code_->end() <= code_->begin()) return std::nullopt;
  return Match{code_->begin(), code_->end()};
}

std::optional<std::size_t> UnicodeRegex::first_not_utf8(std::string_view text) {
  // Before it matches anything, PCRE2 reads all of the text.
  const Code nothing("", PCRE2_UTF);
  const int result = nothing.match(text, 0, 0);
  if (result >= 0 || result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  return nothing.stopped_at();
}

}  // namespace causeway::intra
