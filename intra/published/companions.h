// The files beside a model's weights: what config.json and the tokenizer's files were when the
// weights were written is in the metadata of those.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace causeway::intra {

// Adds the hash of each of these files that is in `directory`.
void add_companions(const std::filesystem::path& directory, const std::vector<std::string>& names,
                    std::map<std::string, std::string>& metadata);
// Takes these hashes out of the metadata again. Returns which files are gone, or are not those that
// were written with the weights.
std::vector<std::string> take_changed_companions(const std::filesystem::path& directory,
                                                 std::map<std::string, std::string>& metadata);
// The same of the model at `checkpoint`, as load_model() has it.
std::vector<std::string> changed_companions(const std::filesystem::path& checkpoint);

}  // namespace causeway::intra
