#include "intra/published/tokenizer.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "intra/base/error.h"
#include "intra/published/tokenizer_file.h"

namespace causeway::intra {
namespace {

// Finds added tokens in a text: of those that begin at a place the longest.
class AddedTokens {
 public:
  void add(const AddedToken& token) {
    auto& same = by_first_[static_cast<unsigned char>(token.content.front())];
    same.push_back(token);
    std::stable_sort(same.begin(), same.end(), [](const AddedToken& a, const AddedToken& b) {
      return a.content.size() > b.content.size();
    });
    if (same.size() == 1) first_bytes_ += token.content.front();
  }

  // Calls found(token) and between(text) in order.
  template <typename Found, typename Between>
  void split(std::string_view text, Found&& found, Between&& between) const {
    std::size_t done = 0;
    for (std::size_t at = 0;
         (at = text.find_first_of(first_bytes_, at)) != std::string_view::npos;) {
      const AddedToken* const token = at_start_of(text.substr(at));
      if (token == nullptr) {
        ++at;
        continue;
      }
      if (at > done) between(text.substr(done, at - done));
      found(token->token);
      done = at += token->content.size();
    }
    if (done < text.size()) between(text.substr(done));
  }

 private:
  const AddedToken* at_start_of(std::string_view text) const {
    const auto& same = by_first_[static_cast<unsigned char>(text.front())];
    const auto token = std::find_if(same.begin(), same.end(), [&](const AddedToken& candidate) {
      return text.starts_with(candidate.content);
    });
    return token == same.end() ? nullptr : &*token;
  }

  std::array<std::vector<AddedToken>, 256> by_first_;
  std::string first_bytes_;
};

// Words come again and again.
class WordCache {
 public:
  const std::vector<std::int32_t>* find(std::string_view word) {
    key_ = word;
    const auto found = tokens_.find(key_);
    return found == tokens_.end() ? nullptr : &found->second;
  }
  void put(std::string_view word, std::vector<std::int32_t> tokens) {
    constexpr std::size_t kWordsMost = 1 << 16, kLengthMost = 64;
    if (word.size() > kLengthMost) return;
    if (tokens_.size() >= kWordsMost) tokens_.clear();
    tokens_.emplace(word, std::move(tokens));
  }

 private:
  std::unordered_map<std::string, std::vector<std::int32_t>> tokens_;
  std::string key_;
};

std::unordered_map<std::string, std::int32_t> whole_words(const TokenizerFile& file) {
  std::unordered_map<std::string, std::int32_t> words;
  if (!file.whole_words) return words;
  for (const auto& [token, bytes] : file.bytes) words.emplace(bytes, token);
  return words;
}

}  // namespace

class Tokenizer::Implementation {
 public:
  Implementation(std::filesystem::path path, TokenizerFile file)
      : path_(std::move(path)),
        file_(std::move(file)),
        pairs_(file_.byte_tokens, file_.merges, whole_words(file_)) {
    for (const AddedToken& token : file_.added) {
      (token.normalized ? normalized_ : raw_).add(token);
      file_.bytes[token.token] = token.content;
      by_content_.emplace(token.content, token.token);
    }
    for (const auto& [token, bytes] : file_.bytes) end_ = std::max(end_, std::int64_t{token} + 1);
  }

  const TokenizerFile& file() const { return file_; }
  std::int64_t end() const { return end_; }

  std::optional<std::int32_t> token(const std::string& content) const {
    const auto found = by_content_.find(content);
    return found == by_content_.end() ? std::nullopt : std::optional(found->second);
  }

  std::string decode(std::span<const std::int32_t> tokens) const {
    std::string text;
    for (const std::int32_t token : tokens) {
      const auto found = file_.bytes.find(token);
      if (found != file_.bytes.end()) text += found->second;
    }
    return text;
  }

  void encode(std::string_view text, const Sink& sink) const {
    if (const auto place = UnicodeRegex::first_not_utf8(text)) {
      throw std::system_error(
          Errc::bad_data,
          fmt::format("the text is not UTF-8 at byte {}; convert it first, for example with iconv",
                      *place));
    }
    WordCache cache;
    const auto found = [&](std::int32_t token) { sink(std::span(&token, 1)); };
    const auto words = [&](std::string_view part) { encode_words(part, cache, sink); };
    try {
      raw_.split(text, found,
                 [&](std::string_view part) { normalized_.split(part, found, words); });
    } catch (const std::invalid_argument& error) {
      throw std::system_error(Errc::bad_data, "the text " + std::string(error.what()));
    }
  }

 private:
  void encode_words(std::string_view text, WordCache& cache, const Sink& sink) const {
    if (!file_.add_prefix_space || text.starts_with(' ')) return split(text, 0, cache, sink);
    split(" " + std::string(text), 0, cache, sink);
  }

  // By the expressions from `step` on.
  void split(std::string_view text, std::size_t step, WordCache& cache, const Sink& sink) const {
    if (step == file_.splits.size()) return encode_word(text, cache, sink);
    file_.splits[step].split(text,
                             [&](std::string_view part) { split(part, step + 1, cache, sink); });
  }

  void encode_word(std::string_view word, WordCache& cache, const Sink& sink) const {
    if (const auto* known = cache.find(word)) return sink(*known);
    std::vector<std::int32_t> tokens;
    if (!pairs_.encode(word, tokens)) {
      throw std::system_error(Errc::bad_data, path_.string() + " has no token for a byte of '" +
                                                  std::string(word) + "'");
    }
    sink(tokens);
    cache.put(word, std::move(tokens));
  }

  std::filesystem::path path_;
  TokenizerFile file_;
  BytePairs pairs_;
  AddedTokens raw_, normalized_;
  std::unordered_map<std::string, std::int32_t> by_content_;
  std::int64_t end_ = 0;
};

Tokenizer::Tokenizer(const std::filesystem::path& path) {
  const auto file = is_directory(path) ? path / "tokenizer.json" : path;
  implementation_ = std::make_unique<const Implementation>(file, read_tokenizer_file(file));
}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  encode(text, [&](std::span<const std::int32_t> more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  });
  return tokens;
}
void Tokenizer::encode(std::string_view text, const Sink& sink) const {
  implementation_->encode(text, sink);
}
std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  return implementation_->decode(tokens);
}
const std::vector<std::int32_t>& Tokenizer::before() const {
  return implementation_->file().before;
}
const std::vector<std::int32_t>& Tokenizer::after() const {
  return implementation_->file().after;
}
std::optional<std::int32_t> Tokenizer::token(const std::string& content) const {
  return implementation_->token(content);
}
std::int64_t Tokenizer::vocabulary() const {
  return implementation_->end();
}

}  // namespace causeway::intra
