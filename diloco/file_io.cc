#include "diloco/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

namespace causeway::diloco {
namespace {

void sync_directory(const std::filesystem::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_errno("open", directory);
  const int result = ::fsync(fd);
  ::close(fd);
  if (result != 0) throw_errno("fsync", directory);
}

}  // namespace

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

void write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno("write", path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void replace_file(const std::filesystem::path& path, const std::string& content,
                  Durability durability) {
  std::filesystem::path temporary = path;
  temporary += ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) throw_errno("create", temporary);
  try {
    write_all(fd, std::as_bytes(std::span(content)), temporary);
    if (durability == Durability::synced && ::fsync(fd) != 0) throw_errno("fsync", temporary);
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
  if (::rename(temporary.c_str(), path.c_str()) != 0) throw_errno("rename", temporary);
  if (durability == Durability::synced) sync_directory(path.parent_path());
}

}  // namespace causeway::diloco
