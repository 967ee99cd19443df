#include "inter/blob/spool_files.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include "inter/base/hex.h"
#include "inter/base/limits.h"
#include "inter/base/page_buffer.h"

namespace causeway::inter {
namespace {

constexpr std::string_view kPartialSuffix = ".part";
constexpr std::string_view kMapSuffix = ".map";
constexpr std::string_view kDraftPrefix = "draft-";

std::string file_name(const BlobId& id) {
  return hex(id.hash) + "-" + std::to_string(id.size_bytes);
}

std::optional<BlobId> named_before(std::string_view suffix, std::string_view name) {
  return name.ends_with(suffix) ? named_blob(name.substr(0, name.size() - suffix.size()))
                                : std::nullopt;
}

}  // namespace

std::filesystem::path blob_path(const std::filesystem::path& spool_directory, const BlobId& id) {
  return spool_directory / file_name(id);
}

std::filesystem::path archived_blob_path(const std::filesystem::path& spool_directory,
                                         const BlobId& id) {
  return spool_directory.parent_path() / "archive" / file_name(id);
}

PartialBlob::Paths partial_paths(const std::filesystem::path& spool_directory, const BlobId& id) {
  const std::string name = file_name(id);
  return {spool_directory / (name + std::string(kPartialSuffix)),
          spool_directory / (name + std::string(kMapSuffix))};
}

std::filesystem::path draft_path(const std::filesystem::path& spool_directory,
                                 std::uint64_t number) {
  return spool_directory / (std::string(kDraftPrefix) + std::to_string(number));
}

bool is_draft(std::string_view file_name) {
  return file_name.starts_with(kDraftPrefix);
}

std::optional<BlobId> named_blob(std::string_view name) {
  BlobId id;
  const std::size_t hex_digits = 2 * id.hash.size();
  if (name.size() < hex_digits + 2) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < id.hash.size(); ++i) {
    std::from_chars(name.data() + 2 * i, name.data() + 2 * i + 2, id.hash[i], 16);
  }
  std::from_chars(name.data() + hex_digits + 1, name.data() + name.size(), id.size_bytes);
  return file_name(id) == name ? std::optional(id) : std::nullopt;
}

std::optional<BlobId> named_partial(std::string_view name) {
  const auto id = named_before(kPartialSuffix, name);
  return id ? id : named_before(kMapSuffix, name);
}

void read_exactly(const std::filesystem::path& path, const File& file, std::uint64_t offset,
                  std::span<std::byte> bytes) {
  if (file.read_at(offset, bytes) != bytes.size()) {
    throw std::system_error(std::make_error_code(std::errc::io_error),
                            path.string() + " is shorter than it was");
  }
}

Sha256Hash hash_file(const std::filesystem::path& path, std::uint64_t size) {
  Sha256 hash;
  const File file(path, O_RDONLY);
  const PageBuffer buffer(kHashReadBytes);
  for (std::uint64_t offset = 0; offset < size; offset += kHashReadBytes) {
    const auto part = buffer.bytes().first(std::min<std::uint64_t>(size - offset, kHashReadBytes));
    read_exactly(path, file, offset, part);
    hash.update(part);
  }
  return hash.finish();
}

}  // namespace causeway::inter
