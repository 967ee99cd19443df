// Text to tokens and back, as a Hugging Face tokenizer.json describes it: byte-level byte-pair
// encoding, which GPT-2 and Llama 3 have. Gives the tokens that the `tokenizers` library gives.
//
//   text ─► added tokens, which stand for themselves ("<|endoftext|>")
//        ─► between them: words, by regular expressions
//        ─► each word's bytes, joined by the merges (byte_pairs.h)
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace causeway::intra {

class Tokenizer {
 public:
  // A tokenizer.json, or the directory with it. Untrusted file. Throws Errc::bad_data naming it and
  // what is wrong, or what it needs that is not built in (normalizers, SentencePiece's rules).
  explicit Tokenizer(const std::filesystem::path& path);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;

  // Of UTF-8 text, without what belongs around a document. Throws Errc::bad_data saying where the
  // text is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text) const;
  // The same in parts, for texts whose tokens need not fit in memory.
  using Sink = std::function<void(std::span<const std::int32_t>)>;
  void encode(std::string_view text, const Sink& sink) const;

  // The bytes that the tokens stand for: UTF-8 if they are whole texts' tokens. A number that is no
  // token's stands for nothing.
  std::string decode(std::span<const std::int32_t> tokens) const;

  // What a model expects before and after a text, such as "<|begin_of_text|>".
  const std::vector<std::int32_t>& before() const;
  const std::vector<std::int32_t>& after() const;

  std::optional<std::int32_t> token(const std::string& content) const;  // an added one
  std::int64_t vocabulary() const;                                      // all tokens are below

 private:
  class Implementation;
  std::unique_ptr<const Implementation> implementation_;
};

}  // namespace causeway::intra
