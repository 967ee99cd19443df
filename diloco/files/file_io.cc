#include "diloco/files/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <system_error>

namespace causeway::diloco {
namespace {

// Of the whole file, and of whoever opened it: gone when the last copy of the descriptor is.
struct flock whole_file() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

void throw_errno(const std::string& what, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), what + " " + path.string());
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return inter::read_regular_file(path, std::numeric_limits<std::size_t>::max());
}

std::optional<Descriptor> lock_file(const std::filesystem::path& path) {
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (lock.get() < 0) throw_errno("create", path);
  struct flock whole = whole_file();
  if (::fcntl(lock.get(), F_OFD_SETLK, &whole) != 0) return std::nullopt;
  return lock;
}

bool is_locked(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock whole = whole_file();
  return file.get() >= 0 && ::fcntl(file.get(), F_OFD_GETLK, &whole) == 0 &&
         whole.l_type != F_UNLCK;
}

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      throw std::system_error(
          error, std::generic_category(),
          "cannot write " + path.string() + inter::room_left(error, path, bytes.size()));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

Descriptor open_to_append(const std::filesystem::path& path) {
  Descriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file.get() < 0) throw_errno("open", path);
  return file;
}

void append_to_file(const std::filesystem::path& path, std::string_view text) {
  write_all(open_to_append(path).get(), std::as_bytes(std::span(text)), path);
}

void replace_file(const std::filesystem::path& path, std::span<const std::byte> content,
                  Durability durability) {
  AtomicFile file(path);
  file.append(content);
  file.commit(durability);
}

void replace_file(const std::filesystem::path& path, std::string_view content,
                  Durability durability) {
  replace_file(path, std::as_bytes(std::span(content)), durability);
}

}  // namespace causeway::diloco
