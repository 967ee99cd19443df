// Hugging Face's config.json: a model's settings under that project's names.
#pragma once

#include <filesystem>
#include <string>

#include "intra/model/model.h"

namespace causeway::intra {

// Settings that config.json does not have (dropout) stay at their defaults. Untrusted file. Throws
// Errc::bad_checkpoint naming it and the entry.
ModelOptions read_model_config(const std::filesystem::path& file);

// The text of a config.json; entries of `origin` (another one; empty: none) that do not speak of
// the model's shape are kept. Throws Errc::bad_checkpoint if there is no such file.
std::string model_config(const ModelOptions& options, const std::filesystem::path& origin);

}  // namespace causeway::intra
