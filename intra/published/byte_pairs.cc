#include "intra/published/byte_pairs.h"

#include <cstdint>
#include <new>
#include <queue>
#include <stdexcept>
#include <tuple>

#include <pcre2.h>

#include <fmt/format.h>

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
      throw std::invalid_argument(fmt::format("the pattern '{}' is wrong at character {}: {}",
                                              pattern, offset, message_of(error)));
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
    throw std::invalid_argument(
        fmt::format("cannot be split into words at byte {}: {}", from, message_of(result)));
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

namespace {

constexpr std::size_t kEnd = static_cast<std::size_t>(-1);

std::uint64_t key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

// A token of the word and its neighbours; one that was merged into its left neighbour is dead.
struct Piece {
  std::int32_t token;
  std::size_t previous, next;
  bool dead = false;
};

// Two pieces that could become one, as they were when this was found.
struct Candidate {
  std::uint32_t rank;
  std::size_t place;  // of the left one
  std::int32_t left, right, whole;
  bool operator>(const Candidate& other) const {
    return std::tie(rank, place) > std::tie(other.rank, other.place);
  }
};

using Candidates = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;

}  // namespace

BytePairs::BytePairs(const std::array<std::int32_t, 256>& bytes, const std::vector<Merge>& merges,
                     std::unordered_map<std::string, std::int32_t> words)
    : bytes_(bytes), words_(std::move(words)) {
  std::uint32_t rank = 0;
  for (const Merge& merge : merges)
    merges_.insert_or_assign(key(merge.left, merge.right), Ranked{rank++, merge.whole});
}

bool BytePairs::encode(std::string_view word, std::vector<std::int32_t>& tokens) const {
  if (!words_.empty()) {
    if (const auto whole = words_.find(std::string(word)); whole != words_.end()) {
      tokens.push_back(whole->second);
      return true;
    }
  }
  std::vector<std::int32_t> pieces;
  for (const char byte : word) {
    pieces.push_back(bytes_[static_cast<unsigned char>(byte)]);
    if (pieces.back() == kNoToken) return false;
  }
  pieces = merge(std::move(pieces));
  tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  return true;
}

const BytePairs::Ranked* BytePairs::find(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

// A heap, because a word of a long text without spaces is long.
std::vector<std::int32_t> BytePairs::merge(std::vector<std::int32_t> tokens) const {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < tokens.size(); ++i)
    pieces.push_back({tokens[i], i == 0 ? kEnd : i - 1, i + 1 == tokens.size() ? kEnd : i + 1});
  Candidates candidates;
  const auto consider = [&](std::size_t left) {
    if (left == kEnd || pieces[left].next == kEnd) return;
    const std::int32_t a = pieces[left].token, b = pieces[pieces[left].next].token;
    if (const Ranked* merge = find(a, b)) candidates.push({merge->rank, left, a, b, merge->whole});
  };
  for (std::size_t i = 0; i < pieces.size(); ++i) consider(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Piece& left = pieces[best.place];
    if (left.dead || left.token != best.left || left.next == kEnd) continue;
    Piece& right = pieces[left.next];
    if (right.token != best.right) continue;
    left.token = best.whole;
    right.dead = true;
    left.next = right.next;
    if (left.next != kEnd) pieces[left.next].previous = best.place;
    consider(left.previous);
    consider(best.place);
  }
  tokens.clear();
  for (const Piece& piece : pieces) {
    if (!piece.dead) tokens.push_back(piece.token);
  }
  return tokens;
}

}  // namespace causeway::intra
