// Small files that a reader finds either whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace causeway::intra {

// on_disk: survives a power loss. visible: only for readers on this machine now, and cheap.
enum class Durability { on_disk, visible };

// Writes under a temporary name, then renames. Throws std::system_error naming the file.
void write_atomically(const std::filesystem::path& file, std::span<const std::byte> bytes,
                      Durability durability = Durability::on_disk);

}  // namespace causeway::intra
