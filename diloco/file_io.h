// Small files that must survive a crash whole.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace causeway::diloco {

// Throws std::system_error with errno, the operation and the path.
[[noreturn]] void throw_errno(const std::string& what, const std::filesystem::path& path);

// The whole file; nothing if it does not exist.
std::optional<std::string> read_file(const std::filesystem::path& path);

// Readers see the old content or the new. sync: also after a power failure.
enum class Durability { renamed, synced };
void replace_file(const std::filesystem::path& path, const std::string& content,
                  Durability durability);

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace causeway::diloco
