#include "diloco/files/archive.h"

#include <system_error>

#include <fmt/format.h>

#include "diloco/files/file_io.h"

namespace causeway::diloco {

namespace fs = std::filesystem;

fs::path archive_directory(const fs::path& region_directory) {
  return region_directory / "archive";
}

fs::path archived_config(const fs::path& region_directory) {
  return archive_directory(region_directory) / "config.toml";
}

fs::path archived_state(const fs::path& region_directory, std::uint64_t version) {
  return archive_directory(region_directory) / (fmt::format("state-{}.safetensors", version));
}

void open_archive(const fs::path& region_directory, const std::string& config) {
  create_private_directories(archive_directory(region_directory));
  replace_file(archived_config(region_directory), config, Durability::on_disk);
}

bool has_archive(const fs::path& region_directory) {
  return fs::is_directory(archive_directory(region_directory));
}

void archive(const fs::path& region_directory, const fs::path& file) {
  const fs::path kept = archive_directory(region_directory) / file.filename();
  if (fs::exists(kept)) return;
  std::error_code error;
  fs::create_hard_link(file, kept, error);
  if (!error) return;
  const fs::path unfinished = kept.string() + ".tmp";
  fs::copy_file(file, unfinished, fs::copy_options::overwrite_existing);
  fs::rename(unfinished, kept);
}

}  // namespace causeway::diloco
