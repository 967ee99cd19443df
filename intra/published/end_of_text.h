// Which token ends a text, by what stands beside a tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace causeway::intra {

// What the directory's tokenizer_config.json, special_tokens_map.json, generation_config.json or
// config.json names; else the one added token of tokenizer.json that is called as such tokens are,
// "<|endoftext|>" or "</s>". Nothing if that is not known: files that are missing or that nobody
// can read tell nothing.
std::optional<std::int64_t> end_of_text(const std::filesystem::path& directory);

}  // namespace causeway::intra
