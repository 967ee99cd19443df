// Small files that must survive a crash whole.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "diloco/files/descriptor.h"
#include "inter/base/file.h"

namespace causeway::diloco {

// Throws std::system_error with errno, the operation and the path.
[[noreturn]] void throw_errno(const std::string& what, const std::filesystem::path& path);

// The whole file; nothing if it does not exist. Throws as inter::read_regular_file().
std::optional<std::string> read_file(const std::filesystem::path& path);

using inter::AtomicFile;
using inter::create_private_directories;
using inter::Durability;
using inter::remove_leftovers;

// The whole file at once, under its name only when complete.
void replace_file(const std::filesystem::path& path, std::span<const std::byte> content,
                  Durability durability);
void replace_file(const std::filesystem::path& path, std::string_view content,
                  Durability durability);

// To write at its end; the file is made if need be. A symbolic link is refused.
Descriptor open_to_append(const std::filesystem::path& path);
// In one write, so that a crash leaves at most this text unfinished.
void append_to_file(const std::filesystem::path& path, std::string_view text);

// The file's lock, the file made if need be; whoever ends gives it back, however that happens.
// Nothing: another program has it.
std::optional<Descriptor> lock_file(const std::filesystem::path& path);

// Whether a program has that lock now. False if there is no such file.
bool is_locked(const std::filesystem::path& path);

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace causeway::diloco
