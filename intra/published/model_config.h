// Hugging Face's config.json: a model's settings under that project's names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "intra/base/safetensors.h"
#include "intra/model/model.h"

namespace causeway::intra {

// Settings that config.json does not have (dropout) stay at their defaults. Untrusted file. Throws
// Errc::bad_checkpoint naming it and the entry.
ModelOptions read_model_config(const std::filesystem::path& file);

// The text of a config.json; entries of `origin` (another one; empty: none) that do not speak of
// the model's shape are kept. `end`: the token that ends a text, where `origin` names none.
// `stored`: how the
// weights beside it are. Throws Errc::bad_checkpoint if there is no such file.
std::string model_config(const ModelOptions& options, const std::filesystem::path& origin,
                         std::optional<std::int64_t> end = std::nullopt,
                         StoredAs stored = StoredAs::fp32);
// The text of a generation_config.json with that token, if it names none; as it is if it cannot be
// read.
std::string generation_config(const std::string& text, std::int64_t end);

}  // namespace causeway::intra
