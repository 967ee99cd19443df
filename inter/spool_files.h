// Where a spool keeps its files, for who looks at another process's.
#pragma once

#include <filesystem>

#include "inter/blob.h"

namespace causeway::inter {

// Of a complete blob.
std::filesystem::path blob_path(const std::filesystem::path& spool_directory, const BlobId& id);

}  // namespace causeway::inter
