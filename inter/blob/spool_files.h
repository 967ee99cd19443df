// How a spool names its files, and reads them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>

#include "inter/base/file.h"
#include "inter/base/sha256.h"
#include "inter/blob/partial_blob.h"
#include "inter/frame/blob.h"

namespace causeway::inter {

// Of a complete blob. Also for who looks at another process's spool.
std::filesystem::path blob_path(const std::filesystem::path& spool_directory, const BlobId& id);
// Of one that is kept for good, in the directory `archive` beside the spool.
std::filesystem::path archived_blob_path(const std::filesystem::path& spool_directory,
                                         const BlobId& id);
PartialBlob::Paths partial_paths(const std::filesystem::path& spool_directory, const BlobId& id);

std::filesystem::path draft_path(const std::filesystem::path& spool_directory,
                                 std::uint64_t number);

// The complete blob, or the partial one, of which a file of this name is; nothing for other names.
std::optional<BlobId> named_blob(std::string_view file_name);
std::optional<BlobId> named_partial(std::string_view file_name);
bool is_draft(std::string_view file_name);

// Fills `bytes`, or throws naming the file.
void read_exactly(const std::filesystem::path& path, const File& file, std::uint64_t offset,
                  std::span<std::byte> bytes);

Sha256Hash hash_file(const std::filesystem::path& path, std::uint64_t size);

}  // namespace causeway::inter
