// Data preparation: a text becomes a file of tokens, as token_file.h reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "intra/data/data_options.h"
#include "intra/published/tokenizer.h"

namespace causeway::intra {

// The documents of a file: a plain text is one, of JSON lines each line is one.
enum class DocumentFormat : std::uint8_t { text, json_lines };

// By the name's extension and the first bytes. Untrusted file. Throws Errc::bad_data naming it and
// what to do with it, if it is neither: Parquet, compressed, other binary data.
DocumentFormat document_format(const std::filesystem::path& file);

// Calls `take` with the text of each document in `bytes`. Of JSON lines that is the string in
// `field` of each line's object; lines of spaces are skipped. Throws Errc::bad_data naming the
// line, counted from 1, and what is wrong with it.
void each_document(std::string_view bytes, DocumentFormat format, const std::string& field,
                   const std::function<void(std::string_view)>& take);

// Of the tokens of a vocabulary: uint16 where they fit.
DataOptions::Format shard_format(std::int64_t vocabulary);

struct ShardCount {
  std::uint64_t documents = 0, tokens = 0;
};

// The tokens of a file's documents (token_shard.h): of each what the tokenizer wants around it, the
// text's own, and `end` where it is given. `field`: of JSON lines. Replaces `shard` whole. Throws
// Errc::bad_data naming the text, std::system_error naming the shard.
ShardCount write_shard(const Tokenizer& tokenizer, const std::filesystem::path& text,
                       std::optional<std::int32_t> end, const std::filesystem::path& shard,
                       const std::string& field = "text");

}  // namespace causeway::intra
