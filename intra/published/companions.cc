#include "intra/published/companions.h"

#include <optional>
#include <span>
#include <string_view>

#include "diloco/files/file_io.h"
#include "diloco/maths/digest.h"
#include "intra/published/model_weights.h"

namespace causeway::intra {
namespace {

namespace fs = std::filesystem;

// This and the name of a file is the key of its SHA-256.
constexpr std::string_view kPrefix = "sha256.";

// None: there is no such file.
std::optional<std::string> hash_of(const fs::path& file) {
  const auto content = diloco::read_file(file);
  if (!content) return std::nullopt;
  return diloco::to_hex(diloco::sha256(std::as_bytes(std::span(*content))));
}

}  // namespace

void add_companions(const fs::path& directory, const std::vector<std::string>& names,
                    std::map<std::string, std::string>& metadata) {
  for (const std::string& name : names) {
    if (const auto hash = hash_of(directory / name)) metadata[std::string(kPrefix) + name] = *hash;
  }
}

std::vector<std::string> take_changed_companions(const fs::path& directory,
                                                 std::map<std::string, std::string>& metadata) {
  std::vector<std::string> changed;
  std::erase_if(metadata, [&](const auto& entry) {
    const auto& [key, hash] = entry;
    if (!key.starts_with(kPrefix)) return false;
    const fs::path name = fs::path(key.substr(kPrefix.size())).filename();
    if (hash_of(directory / name) != hash) changed.push_back(name);
    return true;
  });
  return changed;
}

std::vector<std::string> changed_companions(const fs::path& checkpoint) {
  auto metadata = WeightFiles(checkpoint).metadata();
  return take_changed_companions(
      fs::is_directory(checkpoint) ? checkpoint : checkpoint.parent_path(), metadata);
}

}  // namespace causeway::intra
