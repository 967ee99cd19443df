// Whose a place is that this process may not use: most often root's, after one start with sudo.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace causeway::run {

// Of the innermost part of `path` that `user` can see: "; runs belongs to user 0 (root), and ...",
// or nothing if it belongs to that user.
std::string owner_advice(const std::filesystem::path& path, uid_t user);

}  // namespace causeway::run
