// Small files that must survive a crash whole, descriptors with an owner, hashes of files, and
// names that no two share.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "inter/base/atomic_file.h"
#include "inter/base/file.h"
#include "inter/base/pieces.h"

namespace causeway::diloco {

// A file descriptor that has an owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return fd_; }
  Descriptor duplicate() const;  // of the same open file; throws std::system_error
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Throws std::system_error with errno, the operation and the path.
[[noreturn]] void throw_errno(const std::string& what, const std::filesystem::path& path);

// The whole file; nothing if it does not exist. Throws as inter::read_regular_file().
std::optional<std::string> read_file(const std::filesystem::path& path);

using inter::AtomicFile;
using inter::create_private_directories;
using inter::Durability;
using inter::give_second_name;
using inter::kPieceBytes;
using inter::remove_leftovers;
using inter::take_turns;
using inter::Through;

// The whole file at once, under its name only when complete.
void replace_file(const std::filesystem::path& path, std::span<const std::byte> content,
                  Durability durability);
void replace_file(const std::filesystem::path& path, std::string_view content,
                  Durability durability);

// To write at its end; the file is made if need be. A symbolic link is refused.
Descriptor open_to_append(const std::filesystem::path& path);
// In one write, so that a crash leaves at most this text unfinished.
void append_to_file(const std::filesystem::path& path, std::string_view text);
// The same to a file that is kept up to `bytes_max`, with two older ones: beside name.ext there are
// name.1.ext and name.2.ext, which is the oldest.
void append_to_rotated_file(const std::filesystem::path& path, std::string_view text,
                            std::uint64_t bytes_max);

// Who has a lock: whoever has a copy of the descriptor, such as a process that was forked, or this
// process alone. Then no other descriptor of the file may be closed meanwhile.
enum class Held : std::uint8_t { by_descriptor, by_this_process };
// The file's lock, the file made if need be; whoever ends gives it back, however that happens. The
// file's time says since when it is held, its text for people by whom. Nothing: another program has
// it.
std::optional<Descriptor> lock_file(const std::filesystem::path& path,
                                    Held held = Held::by_descriptor);

// Who has it, as the end of a sentence: " (process 4711 on host-a)". Empty: the disk took no note
// of it. A container counts its own processes.
std::string lock_holder(const std::filesystem::path& path);

// Whether a program has that lock now. False if there is no such file.
bool is_locked(const std::filesystem::path& path);

// The file's time becomes now. It takes no room on the disk; what it refuses is left as it is.
void touch(const std::filesystem::path& path);

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);
// At the end of an open file: all of it, or nothing if that throws.
void append_whole(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path);

// SHA-256 of a whole file.
// Of an open file, from its beginning. Nothing if `stop`, which is asked every few megabytes, says
// so. Throws std::system_error naming the path.
std::optional<std::array<std::uint8_t, 32>> file_hash(int descriptor,
                                                      const std::filesystem::path& path,
                                                      const std::function<bool()>& stop);

// Names that no two runs or disks share.
std::string random_name();  // 32 hexadecimal digits. Throws std::system_error
bool is_random_name(const std::string& text);

}  // namespace causeway::diloco
