// Data preparation: a text becomes a file of tokens, as data.h reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "intra/data/data.h"
#include "intra/published/tokenizer.h"

namespace causeway::intra {

// Of the tokens of a vocabulary: uint16 where they fit.
DataOptions::Format shard_format(std::int64_t vocabulary);

struct ShardCount {
  std::uint64_t documents = 0, tokens = 0;
};

// The tokens of a file's documents (documents.h): of each what the tokenizer wants around it, the
// text's own, and `end` where it is given. `field`: of JSON lines. Replaces `shard` whole. Throws
// Errc::bad_data naming the text, std::system_error naming the shard.
ShardCount write_shard(const Tokenizer& tokenizer, const std::filesystem::path& text,
                       std::optional<std::int32_t> end, const std::filesystem::path& shard,
                       const std::string& field = "text");

}  // namespace causeway::intra
