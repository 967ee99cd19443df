// What a tokenizer.json says, checked. Used by tokenizer.cc alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "intra/published/byte_pairs.h"

namespace causeway::intra {

struct AddedToken {
  std::string content;
  std::int32_t token = 0;
  bool normalized = false;  // looked for after those that are not
};

struct TokenizerFile {
  std::vector<AddedToken> added;
  std::vector<UnicodeRegex> splits;  // one after the other
  bool add_prefix_space = false;     // before a text that does not begin with one
  std::unordered_map<std::int32_t, std::string> bytes;  // of every token of the vocabulary
  std::array<std::int32_t, 256> byte_tokens{};
  std::vector<BytePairs::Merge> merges;
  bool whole_words = false;                 // a word that is a token needs no merges
  std::vector<std::int32_t> before, after;  // around a text
};

// Throws Errc::bad_data naming the file.
TokenizerFile read_tokenizer_file(const std::filesystem::path& file);

}  // namespace causeway::intra
