#include "diloco/files/file_io.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

namespace causeway::diloco {
void throw_errno(const std::string& what, const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), what + " " + path.string());
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    if (!std::filesystem::exists(path)) return std::nullopt;
    throw_errno("open", path);
  }
  std::string content{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad()) throw_errno("read", path);
  return content;
}

std::optional<Descriptor> lock_file(const std::filesystem::path& path) {
  Descriptor lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.get() < 0) throw_errno("create", path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return std::nullopt;
  return lock;
}

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
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
