// Whether a file is the snapshot that somebody says it is.
#pragma once

#include <filesystem>
#include <string>

#include "diloco/maths/digest.h"

namespace causeway::intra {

// Empty, or what the file is instead of a snapshot of the state with this digest, as a clause that
// follows its name. The file is untrusted. Holds a small part of it in memory at a time.
std::string wrong_snapshot(const std::filesystem::path& file, const diloco::Digest& state);

}  // namespace causeway::intra
