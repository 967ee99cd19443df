// Byte-pair encoding (Sennrich et al., 2016) of one word: its bytes become tokens, of which the
// neighbours with the merge of lowest rank become one token, again and again; of equal ranks the
// first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace causeway::intra {

// Regular expressions over UTF-8 text, as tokenizers are described with: PCRE2, with Unicode's
// classes. White space (\s) is Unicode's White_Space, as Oniguruma has it, for which these patterns
// were written.
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

class BytePairs {
 public:
  static constexpr std::int32_t kNoToken = -1;

  struct Merge {
    std::int32_t left = 0, right = 0, whole = 0;
  };
  // `bytes`: the token of each byte, kNoToken where there is none. `merges` by rank. `words` become
  // one token without any merge.
  BytePairs(const std::array<std::int32_t, 256>& bytes, const std::vector<Merge>& merges,
            std::unordered_map<std::string, std::int32_t> words);

  // Appends the word's tokens. Returns false, and appends nothing, if a byte has no token.
  bool encode(std::string_view word, std::vector<std::int32_t>& tokens) const;

 private:
  struct Ranked {
    std::uint32_t rank;
    std::int32_t whole;
  };
  const Ranked* find(std::int32_t left, std::int32_t right) const;
  std::vector<std::int32_t> merge(std::vector<std::int32_t> tokens) const;

  std::array<std::int32_t, 256> bytes_;
  std::unordered_map<std::uint64_t, Ranked> merges_;  // by the pair
  std::unordered_map<std::string, std::int32_t> words_;
};

}  // namespace causeway::intra
